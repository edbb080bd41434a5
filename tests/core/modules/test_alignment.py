"""Centres of windows: the paper's formulas written out one position at a time, and both forms
against them.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtransformer.modules import alignment
from tests.support import ragged

# Of a document's tokens, the number of their sentence; of 1 to 8 sentences.
TAGS = st.lists(st.integers(1, 15), min_size=1, max_size=8).map(
    lambda lengths: [tag for tag, length in enumerate(lengths, 1) for _ in range(length)]
)


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


@pytest.mark.parametrize(
    ("kind", "ratio"),
    [
        ("one_to_one", None),
        *(("linear", r) for r in (None, 0.5, 1.3, 9.0)),
        ("sentence_aligned", None),
    ],
)
@given(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=4))
def test_whole_documents(kind, ratio, documents):
    source, target = zip(*documents, strict=True)
    queries, keys = ragged(target), ragged(source, left=True)
    found = getattr(alignment, kind)(queries, keys, *([] if ratio is None else [ratio]))
    expected = [
        b - 1 for s, t in zip(source, target, strict=True) for b in written_out(kind, s, t, ratio)
    ]
    assert found.dtype == np.int64 and found.tolist() == expected


def test_no_source_at_all():
    for kind in (alignment.one_to_one, alignment.linear, alignment.sentence_aligned):
        assert kind(ragged([[1, 1]]), ragged([[]])).tolist() == [0, 0]
