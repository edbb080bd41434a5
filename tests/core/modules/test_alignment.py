"""Centres of windows: the paper's formulas written out one position at a time, and both forms
against them.
"""

import random
from fractions import Fraction

import numpy as np
import pytest

from gtransformer.modules import alignment
from tests.support import ragged


def documents(seed: int) -> tuple[list[list[int]], list[list[int]]]:
    """Tags of source and target, whose sentences differ in length and, in every other document, in
    number.
    """
    draw = random.Random(seed)
    sides = [], []
    for number in range(4):
        count = draw.randint(1, 6)
        for side in sides:
            more = draw.randint(0, 2) if number % 2 else 0
            lengths = [draw.choice([1, 3, draw.randint(1, 15)]) for _ in range(count + more)]
            side.append([tag for tag, length in enumerate(lengths, 1) for _ in range(length)])
    return sides


def clamp(b: int, length: int) -> int:
    return max(1, min(b, length))


def half_up(x: Fraction) -> int:
    return int((x + Fraction(1, 2)) // 1)


def written_out(
    kind: str, source: list[int], target: list[int], ratio: float | None = None
) -> list[int]:
    """b_1, ..., b_I of one document as in section 3.3, counted from 1."""
    length, own = len(source), len(target)
    centres = []
    for i in range(1, own + 1):
        if kind == "one_to_one":
            b = i
        elif kind == "linear":
            b = half_up((Fraction(length, own) if ratio is None else Fraction(ratio)) * i)
        else:
            begins = i == 1 or target[i - 1] != target[i - 2]
            before = centres[-1] if centres else 0
            b = (
                source.index(target[i - 1]) + 1
                if begins and target[i - 1] in source
                else before + 1
            )
        centres.append(clamp(b, length))
    return centres


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("kind", "ratio"),
    [
        ("one_to_one", None),
        *(("linear", r) for r in (None, 0.5, 1.3, 9.0)),
        ("sentence_aligned", None),
    ],
)
def test_whole_documents(kind, ratio, seed):
    source, target = documents(seed)
    queries, keys = ragged(target), ragged(source, left=True)
    found = getattr(alignment, kind)(queries, keys, *([] if ratio is None else [ratio]))
    expected = [
        b - 1 for s, t in zip(source, target, strict=True) for b in written_out(kind, s, t, ratio)
    ]
    assert found.dtype == np.int64 and found.tolist() == expected


def test_no_source_at_all():
    for kind in (alignment.one_to_one, alignment.linear, alignment.sentence_aligned):
        assert kind(ragged([[1, 1]]), ragged([[]])).tolist() == [0, 0]
