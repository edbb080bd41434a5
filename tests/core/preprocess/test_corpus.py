"""Reading the raw corpus format: what is read and what is refused, with file and line."""

from __future__ import annotations

import lzma

import pytest

from gtransformer.preprocess.corpus import (
    BLANK,
    MARKED,
    NONE,
    document_borders,
    find_splits,
    read_documents,
    text_lines,
)
from gtransformer.preprocess.plain_text import read_plain, read_shaped
from gtransformer.translation.lines import read_text

GOOD = "<d>\nOne.\nTwo.\n<d>\nThree.\n"


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r"])
def test_only_newlines_end_lines(write, sign):
    source = write("en", f"<d>\nOne{sign}two.\nThree.\n")
    assert [len(document) for document in read_documents(source, write("de", "<d>\na\nb\n"))] == [2]


def test_sentence_pairs_without_documents(write):
    """Each is a document; a file that opens with <d> has documents all the same."""
    plain, marked = (
        (write("en", "a\nb\n"), write("de", "A\nB\n")),
        (write("x", GOOD), write("y", GOOD)),
    )
    assert list(read_documents(*plain, sentence_pairs=True)) == [[("a", "A")], [("b", "B")]]
    assert list(read_documents(*marked, sentence_pairs=True)) == list(read_documents(*marked))


@pytest.mark.parametrize(
    "english",
    [
        b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode(),
        lzma.compress(GOOD.encode()),
        GOOD[:-1].encode(),
    ],
)
def test_files_of_windows_compressed_and_without_a_last_newline(write, english):
    source = write("en.xz" if english[1:4] == b"7zX" else "en", english)
    documents = [[("One.", "Eins."), ("Two.", "Zwei.")], [("Three.", "Drei.")]]
    assert list(read_documents(source, write("de", "<d>\nEins.\nZwei.\n<d>\nDrei.\n"))) == documents


BORDERS = [
    (GOOD, [["One.", "Two."], ["Three."]], MARKED),
    ("\n \n" + GOOD, [["One.", "Two."], ["Three."]], MARKED),
    ("<d>\nOne.\n\n<d>\nThree.\n", [["One.", ""], ["Three."]], MARKED),
    ("One.\nTwo.\n\nThree.\n", [["One.", "Two."], ["Three."]], BLANK),
    (
        "\ufeff\r\nOne.\r\nTwo.\r\n\t\r\n\u200b\r\nThree.\r\n\r\n",
        [["One.", "Two."], ["Three."]],
        BLANK,
    ),
    ("One.\nTwo.\n", [["One.", "Two."]], NONE),
]


@pytest.mark.parametrize(("text", "documents", "borders"), BORDERS)
def test_all_commands_see_the_same_documents(write, text, documents, borders):
    """Preparing, scoring and translating; where nothing marks documents, preparing asks."""
    path, translated = write("en", text), []
    assert read_plain(path) == (documents, borders)
    for line in read_text(text_lines(path), lambda sentences: [[one] for one in sentences]):
        if not line.breaks:
            translated += [[]] * (line.document > len(translated))
            translated[-1] = [*translated[-1], line.text.strip("\ufeff")]
    assert translated == documents
    if borders == NONE:
        return  # it is asked which
    assert list(read_documents(path, path)) == [
        [(one, one) for one in document] for document in documents
    ]
    assert document_borders(path) == borders


def test_documents_are_not_empty(write):
    for text in ("<d>\n<d>\na\n", "<d>\na\n<d>\n"):
        path = write("en", text)
        assert list(read_documents(path, path)) == [[("a", "a")]] and read_plain(path)[0] == [["a"]]


@pytest.mark.parametrize(
    "first",
    [
        "A <mask> and [de] and < d > and <S>",
        "<value> (C#)",
        "Haus@@ boot",
        "<URL>",
        "<F1> <F2> keys",
        "<div> is an element",
        "{name} is set",
        "1",
        "a,b",
        "x = 1.",
        '"A" = "B"',
        "[[File:a.png]]",
        "# msgid",
    ],
)
def test_text_that_only_resembles_markup(write, first):
    lines = [first, *([] if first == "# msgid" else ['<?xml version="1.0"?>', '{"a": 1}', "<p>"])]
    assert list(text_lines(write("en", "\n".join(lines)))) == lines


def test_real_text_is_no_markup(shared):
    for path in sorted(shared.glob("*/concatenated_*_dev_*.xz")) + sorted(
        shared.glob("techdocs/*_test_*.xz")
    ):
        assert sum(1 for _ in text_lines(path)) > 100


def names(*splits, pair=("en", "de"), end=""):
    stem = f"concatenated_{pair[0]}2{pair[1]}"
    return [f"{stem}_{split}_{lang}.txt{end}" for split in splits for lang in pair]


def test_find_splits(write, tmp_path):
    """A pretrained model's codes find a corpus without; a code is kept as it was typed where there
    are several.
    """
    for name in [*names("train", "dev"), *names("test", end=".xz")]:
        write(name, "")
    found = find_splits(tmp_path, "en", "de")
    assert list(found) == ["train", "valid", "test"]
    assert [path.name for path in found["valid"]] == names("dev")
    assert [path.name for path in found["test"]] == names("test", end=".xz")
    assert find_splits(tmp_path, "de", "en")["train"] == found["train"][::-1]
    assert find_splits(tmp_path, "eng_Latn", "de_DE") == found
    for pair in (("pt_PT", "pt_BR"), ("sr_Latn", "sr_Cyrl"), ("en_XX", "de_DE")):
        for name in names("train", pair=pair):
            write(name, "")
        assert [path.name for path in find_splits(tmp_path, *pair)["train"]] == names(
            "train", pair=pair
        )


SHAPE = [2, 1, 2]
FULL = [["a", "b"], ["c"], ["d", "e"]]


def written(write, text: str):
    """A file of these words, one a line; ``-`` is a blank one."""
    return write(
        "hypothesis", "".join("\n" if word == "-" else f"{word}\n" for word in text.split())
    )


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
def test_each_line_of_a_translation_has_its_place(write, text, documents):
    assert read_shaped(written(write, text), SHAPE, "reference") == documents
    path = write("hypothesis", "\ufeff a\x00b \r\nc\td\u2028e\r\n")  # cleaned as the corpus is
    assert read_shaped(path, [2], "reference") == [["ab", "c d e"]]
