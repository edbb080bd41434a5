"""Splitting running text: sentences found, and nothing but blanks lost."""

from __future__ import annotations

import random

import pytest

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


def test_nothing_but_blanks_is_lost():
    draw = random.Random(1)
    split = sentence_splitter("en")
    parts = [
        *STRANGE,
        "A dog.",
        "Is it 3.5 percent?",
        'He said: "No! Go." Then',
        "e.g. this",
        "...",
        "(Really?)",
    ]
    for _ in range(200):
        text = draw.choice((" ", "  ", "")).join(draw.choices(parts, k=draw.randint(1, 8)))
        assert "".join("".join(split(text)).split()) == "".join(text.split())
