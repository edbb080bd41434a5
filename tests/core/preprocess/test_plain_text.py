"""Plain text in the shape of another: which line is which sentence."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.preprocess.plain_text import read_shaped

SHAPE = [2, 1, 2]
FULL = [["a", "b"], ["c"], ["d", "e"]]


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("a b c d e", FULL),
        ("<d> a b <d> c <d> d e", FULL),
        ("a b - c - d e", FULL),
        ("a b - - c - d e - -", FULL),
        ("- a b c d e -", FULL),
        ("a b - c d e", FULL),
        ("a - c d -", [["a", ""], ["c"], ["d", ""]]),
        ("a b - - - d e", [["a", "b"], [""], ["d", "e"]]),
        ("- b - c - d -", [["", "b"], ["c"], ["d", ""]]),
        ("- - - - - - -", [["", ""], [""], ["", ""]]),
        ("<d> a - <d> - <d> d e", [["a", ""], [""], ["d", "e"]]),
    ],
)
def test_each_line_has_its_place(write, text, documents):
    path = write("hypothesis", "".join("\n" if word == "-" else f"{word}\n" for word in text.split()))
    assert read_shaped(path, SHAPE, "reference") == documents


@pytest.mark.parametrize(
    "text",
    [
        "a b c d",
        "a b c d e f",
        "a - b c - d e",
        "a b c - d e f",
        "a b - - - - d e",
        "a b - - c - d -",
        "a - b - c",
        "<d> a b <d> c d <d> e",
        "x <d> a b <d> c <d> d e",
    ],
)
def test_what_has_no_clear_place_is_refused(write, text):
    path = write("hypothesis", "".join("\n" if word == "-" else f"{word}\n" for word in text.split()))
    with pytest.raises(UserError, match="hypothesis, line"):
        read_shaped(path, SHAPE, "reference")


def test_sentences_are_cleaned_as_the_corpus_is(write):
    path = write("hypothesis", "\ufeff a\x00b \r\nc\td\u2028e\r\n")
    assert read_shaped(path, [2], "reference") == [["ab", "c d e"]]
