"""Documents that are held out, and those that only look like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.augmentation.held_out import HeldOut
from tests.raw_corpus import write_documents

LONG = [
    "The river near the house is old.",
    "Mary finds a red book there.",
    "She reads until the evening comes.",
]
SHORT = ["Yes.", "No, thanks.", "Good!"]
OTHER = [f"This is sentence number {number} of something else." for number in range(12)]
PAGE = [f"Nobody else has written the {number}th one of these." for number in range(8)]
OTHER_PAGE = [f"The other page has {number} more sentences like this." for number in range(9)]
COMMON = [f"Click the button {name} to continue." for name in ("Next", "Back", "Help")]
LONG_DOCUMENT, SHORT_DOCUMENT, PAGE_DOCUMENT = (f"document {number} of" for number in (1, 2, 3))


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A raw corpus whose test set has a long and a short document and two pages, the dev set
    another."""
    folder = tmp_path / "corpus"
    for split, documents in (
        ("test", [LONG, SHORT, PAGE + COMMON, COMMON + OTHER_PAGE]),
        ("dev", [["Some other text stands in the dev set."]]),
    ):
        write_documents(folder / f"concatenated_en2de_{split}_en.txt", documents)
        german = [[f"Übersetzt: {sentence}" for sentence in document] for document in documents]
        write_documents(folder / f"concatenated_en2de_{split}_de.txt", german)
    return folder


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        (LONG, LONG_DOCUMENT),
        ([f"Übersetzt: {sentence}" for sentence in LONG], LONG_DOCUMENT),
        (SHORT, SHORT_DOCUMENT),
        (
            ["“some other text”", "stands – in the  DEV SET!"],
            "document 1 of",
        ),  # other case, cut and punctuation
        ([*LONG, "And this is how the whole story ends, some days later."], LONG_DOCUMENT),
        ([LONG[1], "Hm."], LONG_DOCUMENT),  # a part
        ([*OTHER[:5], *LONG, *OTHER[5:]], LONG_DOCUMENT),  # a part of something longer
        ([one for pair in zip(OTHER, PAGE[:3], strict=False) for one in pair], PAGE_DOCUMENT),
        ([*OTHER, *PAGE[:2], *PAGE[:2]], None),  # two quotations
        ([*OTHER, *COMMON], None),  # sentences that several held-out documents have
        ([*SHORT, "Goodbye!"], SHORT_DOCUMENT),  # one line more, all short
        ([*OTHER, "Yes."], None),  # a short sentence is everywhere
        (["Nothing of it."], None),
    ],
)
def test_what_is_held_out(corpus, sentences, expected):
    name = HeldOut([corpus, corpus], ("en", "de")).find(sentences)
    assert name is None if expected is None else name.startswith(expected)


def test_a_corpus_without_held_out_sets_is_refused(tmp_path):
    for lang in ("en", "de"):
        write_documents(tmp_path / f"concatenated_en2de_train_{lang}.txt", [LONG])
    with pytest.raises(UserError, match="en-de"):
        HeldOut([tmp_path], ("en", "de"))
