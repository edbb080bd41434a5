"""Splitting running text: sentences found, nothing but blanks lost, long lines in linear time."""

from __future__ import annotations

import random
import time

import pytest

from gtransformer.translation.splitter import LONGEST, SentenceSplitter
from tests.hard_text import STRANGE


@pytest.mark.parametrize(
    ("lang", "text", "sentences"),
    [
        ("en", "Dr. Smith came. He was late! Why?", ["Dr. Smith came.", "He was late!", "Why?"]),
        ("de", "Herr Dr. Müller kam am 3. Mai. Er blieb.", ["Herr Dr. Müller kam am 3. Mai.", "Er blieb."]),
        ("de_DE", "Herr Dr. Müller kam am 3. Mai. Er blieb.", ["Herr Dr. Müller kam am 3. Mai.", "Er blieb."]),
        ("deu_Latn", "Herr Dr. Müller kam am 3. Mai. Er blieb.", ["Herr Dr. Müller kam am 3. Mai.", "Er blieb."]),
        ("xx", "One. Two.", ["One.", "Two."]),
        ("en", "no end", ["no end"]),
        ("en", "  ", []),
    ],
)
def test_sentences(lang, text, sentences):
    assert SentenceSplitter(lang)(text) == sentences


def test_nothing_but_blanks_is_lost():
    draw = random.Random(1)
    split = SentenceSplitter("en")
    parts = [
        *STRANGE,
        "A dog.",
        "Is it 3.5 percent?",
        'He said: "No! Go." Then',
        "e.g. this",
        "...",
        "(Really?)",
        "\n\n",
    ]
    for _ in range(200):
        text = draw.choice((" ", "  ", "")).join(draw.choices(parts, k=draw.randint(1, 8)))
        assert "".join("".join(split(text)).split()) == "".join(text.split())


def test_a_line_of_any_length():
    text = "This is a sentence of a long line. " * 3000
    assert len(text) > 10 * LONGEST
    began = time.process_time()
    assert SentenceSplitter("en")(text) == ["This is a sentence of a long line."] * 3000
    assert time.process_time() - began < 8  # sentencex by itself: 6 s for half of it, 1.5 s for a quarter
    endless = ("word " * 5000).strip()
    assert len(endless) > 2 * LONGEST
    assert SentenceSplitter("en")(f"A dog. {endless}. A cat.") == ["A dog.", f"{endless}.", "A cat."]
