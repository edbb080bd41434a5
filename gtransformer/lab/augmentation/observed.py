"""Observed words of a target: what an augmentation model reads behind a source sentence (Bao et al.
2023).

Target-side augmentation trains a model of the target given the source and some words of the target,
the observed ones. Here they stand behind each source sentence, in the same line, so that model,
training and search are the usual ones:

    Good evening, Mr Becker! ‖ Guten ␣ Becker!

The share of observed words is drawn from Beta(2, 3) for each sentence, and they are n-grams of 1 to
3 words.
"""

from __future__ import annotations

import re

import numpy as np

from gtransformer.data.unspaced import SIGNS

SEPARATOR = "‖"  # between source and observed words
GAP = "␣"  # one or more words that are not observed
BETA = 2.0, 3.0  # of the share: 0.4 on average
LONGEST = 3  # words of an n-gram
# A word with the blanks before it; in scripts without blanks, a character.
_WORD = re.compile(rf"\s*(?:[{SIGNS}]|[^\s{SIGNS}]+)")

Ngrams = list[tuple[int, int]]  # [first, last) words


def random_numbers(
    seed: int, copy: int, document: int, unseen: bool = False
) -> np.random.Generator:
    """Return the random numbers of one copy of one document, whatever else is drawn; all three are
    at least 0.

    ``unseen``: others than those of what an augmentation model is trained on.
    """
    return np.random.default_rng([seed, copy, document, int(unseen)])


def draw_ngrams(words: int, random: np.random.Generator) -> Ngrams:
    """Draw the observed n-grams of a sentence, in order; they do not overlap but may touch.

    The number of observed words is the share times ``words``, rounded up or down at random so that
    its mean is exact. Lengths are uniform from 1 to 3; the last one drawn is shortened if too few
    words are left. All arrangements of n-grams and other words are equally probable, so words at
    the ends are observed less often. (Our choice; the paper gives shares and lengths.)
    """
    # Adding a number from 0 to 1 before cutting rounds up with the probability of the fraction.
    left = int(random.beta(*BETA) * words + random.random())
    pieces = [0] * (words - left)  # words that are not observed
    while left:
        pieces.append(min(left, int(random.integers(1, LONGEST + 1))))
        left -= pieces[-1]
    # A piece is an n-gram, or (0) a word that is not observed. Their order places the n-grams.
    random.shuffle(pieces)
    ngrams, position = [], 0
    for length in pieces:
        if length:
            ngrams.append((position, position + length))
        position += length or 1
    return ngrams


def split_words(sentence: str) -> list[str]:
    """Return the words of a sentence, each with the blanks before it; in scripts without blanks,
    its characters."""
    return _WORD.findall(sentence)


def observed_words(target: str, random: np.random.Generator) -> str:
    """Return the observed n-grams of a sentence, with ``GAP`` for all that stands before, between
    and behind them."""
    words = split_words(target)
    parts, end = [""], 0  # a touching n-gram continues the last part
    for first, last in draw_ngrams(len(words), random):
        if first > end:
            parts += [GAP, ""]
        parts[-1] += "".join(words[first:last])
        end = last
    if end < len(words):
        parts.append(GAP)
    return " ".join(part.strip() for part in parts if part.strip())


def with_observed(source: str, target: str, random: np.random.Generator) -> str:
    """Return a source sentence with the observed words of its target behind it."""
    return f"{source} {SEPARATOR} {observed_words(target, random)}"


def is_plain(sentence: str) -> bool:
    """Return whether a sentence has neither ``SEPARATOR`` nor ``GAP``."""
    return SEPARATOR not in sentence and GAP not in sentence
