"""Splitting running text: sentences found, and nothing but blanks lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtransformer.translation.lines import sentence_splitter
from tests.hard_text import STRANGE


@pytest.mark.parametrize(
    ("lang", "text", "sentences"),
    [
        ("en", "Dr. Smith came. He was late! Why?", ["Dr. Smith came.", "He was late!", "Why?"]),
        (
            "de_DE",
            "Herr Dr. Müller kam am 3. Mai. Er blieb.",
            ["Herr Dr. Müller kam am 3. Mai.", "Er blieb."],
        ),
        (
            "deu_Latn",
            "Herr Dr. Müller kam am 3. Mai. Er blieb.",
            ["Herr Dr. Müller kam am 3. Mai.", "Er blieb."],
        ),
        ("xx", "One. Two.", ["One.", "Two."]),
        ("en", "  ", []),
    ],
)
def test_sentences(lang, text, sentences):
    assert sentence_splitter(lang)(text) == sentences


PARTS = [
    *STRANGE,
    "A dog.",
    "Is it 3.5 percent?",
    'He said: "No! Go." Then',
    "e.g. this",
    "...",
    "(Really?)",
]


@given(st.sampled_from((" ", "  ", "")), st.lists(st.sampled_from(PARTS), min_size=1, max_size=8))
def test_nothing_but_blanks_is_lost(between, parts):
    text = between.join(parts)
    assert "".join("".join(sentence_splitter("en")(text)).split()) == "".join(text.split())
