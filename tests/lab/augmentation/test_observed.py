"""Observed words: shares, lengths and positions against what they are to follow; lines written out
by hand."""

from __future__ import annotations

import re
from itertools import permutations

import numpy as np
import pytest

from gtransformer.lab.augmentation import observed
from gtransformer.lab.augmentation.observed import (
    GAP,
    SEPARATOR,
    draw_ngrams,
    observed_words,
    with_observed,
)

WORDS, DRAWS = 400, 2000  # of a sentence; of sentences


def test_shares_follow_beta_2_3():
    """Kolmogorov-Smirnov with its distribution function written out; a thousandth is refused."""
    random = np.random.default_rng(7)
    drawn = [sum(last - first for first, last in draw_ngrams(WORDS, random)) for _ in range(DRAWS)]
    shares = np.sort(drawn) / WORDS
    wanted = 6 * shares**2 - 8 * shares**3 + 3 * shares**4
    steps = np.arange(DRAWS + 1) / DRAWS
    distance = max((steps[1:] - wanted).max(), (wanted - steps[:-1]).max())
    assert distance < 1.95 / np.sqrt(DRAWS)


def length_draws(words: int) -> list[tuple[float, tuple[int, ...]]]:
    """All draws of lengths for so many observed words, with their probabilities."""
    if not words:
        return [(1.0, ())]
    return [
        (probability / 3, (min(length, words), *rest))
        for length in (1, 2, 3)
        for probability, rest in length_draws(words - min(length, words))
    ]


def expected_positions(words: int) -> np.ndarray:
    """(words,) probability that each word is observed: all numbers, lengths and orders, spelled
    out."""
    shares = (np.arange(20_000) + 0.5) / 20_000
    density = 12 * shares * (1 - shares) ** 2 / 20_000
    total = np.zeros(words)
    for left in range(words + 1):
        rounded = np.clip(
            1 - abs(shares * words - left), 0, None
        )  # probability of rounding up or down to it
        for probability, lengths in length_draws(left):
            orders = list(permutations([*lengths, *[0] * (words - left)]))
            for order in orders:
                shown = [bool(length) for length in order for _ in range(length or 1)]
                total += (density * rounded).sum() * probability / len(orders) * np.array(shown)
    return total


@pytest.mark.parametrize("words", [1, 2, 3, 6])
def test_words_of_a_short_sentence(words):
    """Each as often as it should, within four standard errors; on average 0.4, the mean of Beta(2,
    3)."""
    random, draws = np.random.default_rng(8), 20_000
    counts = np.zeros(words)
    for _ in range(draws):
        end = 0
        for first, last in draw_ngrams(words, random):
            assert end <= first < last <= min(words, first + 3)
            counts[first:last] += 1
            end = last
    expected = expected_positions(words)
    assert expected.mean() == pytest.approx(0.4, abs=1e-6)
    assert (abs(counts / draws - expected) < 4 * np.sqrt(expected * (1 - expected) / draws)).all()


@pytest.mark.parametrize(
    ("target", "ngrams", "line"),
    [
        ("Guten Abend, Herr Becker!", [(0, 1), (3, 4)], "Guten ␣ Becker!"),
        ("Guten Abend, Herr Becker!", [(1, 2)], "␣ Abend, ␣"),
        ("Guten Abend, Herr Becker!", [(0, 1), (1, 3)], "Guten Abend, Herr ␣"),
        ("Guten Abend, Herr Becker!", [(0, 3), (3, 4)], "Guten Abend, Herr Becker!"),
        ("Guten  Abend,\u00a0Herr Becker!", [(0, 3)], "Guten  Abend,\u00a0Herr ␣"),
        ("Guten Abend!", [], "␣"),
        ("", [], ""),
        ("今天天气很好。", [(0, 2), (3, 4), (6, 7)], "今天 ␣ 气 ␣ 。"),
        ("我用 Python 3 写。", [(1, 4), (4, 5)], "␣ 用 Python 3 写 ␣"),
    ],
)
def test_lines_written_by_hand(monkeypatch, target, ngrams, line):
    monkeypatch.setattr(observed, "draw_ngrams", lambda words, random: ngrams)
    assert observed_words(target, np.random.default_rng(1)) == line
    assert (
        with_observed("Source, text.", target, np.random.default_rng(1))
        == f"Source, text. ‖ {line}"
    )


@pytest.mark.parametrize(
    "target", ["Der alte Hund schläft, weil er müde ist.", "今天天气很好，我们去公园。"]
)
def test_what_is_observed_is_of_the_target(target):
    """In order, with at least one word in each gap."""
    random, gaps = np.random.default_rng(2), 0
    for _ in range(300):
        line = with_observed("The old ‖ dog.", target, random)
        source, _, shown = line.rpartition(f" {SEPARATOR} ")
        assert source == "The old ‖ dog."
        pattern = r"\s*".join(
            ".+" if part == GAP else re.escape(part) for part in re.split(f"({GAP})", shown) if part
        )
        assert re.fullmatch(pattern.replace(r"\ ", " ?"), target), (line, pattern)
        assert f"{GAP} {GAP}" not in shown
        gaps += shown.count(GAP)
    assert gaps > 300
