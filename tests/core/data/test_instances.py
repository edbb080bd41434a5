"""Which sentences stand together: each scheme by hand, and what holds for all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtransformer.data.instances import (
    InstanceScheme,
    build_instances,
    parts,
)
from gtransformer.errors import UserError

# Two documents; of the first one a sentence is missing, so it is cut into runs of 3 and 2
# sentences.
SOURCE = np.array([4, 5, 6, 3, 9, 7, 4, 4, 5])
TARGET = np.array([5, 3, 8, 3, 4, 6, 6, 4, 3])
RUNS = [(0, 3), (3, 5), (5, 9)]


def made(*scheme, target=TARGET, runs=RUNS):
    scheme = InstanceScheme(*scheme)
    scheme.check()
    found = build_instances(scheme, SOURCE, target, runs)
    return [
        list(map(tuple, ranges.tolist())) for ranges in (found.source, found.target, found.current)
    ]


ALONE = [(i, i + 1) for i in range(9)]
BEFORE = [(0, 1), (0, 2), (0, 3), (3, 4), (3, 5), (5, 6), (5, 7), (5, 8), (6, 9)]  # up to two
ONE_BEFORE = [(0, 1), (0, 2), (1, 3), (3, 4), (3, 5), (5, 6), (5, 7), (6, 8), (7, 9)]
HALVES = [(0, 3), (3, 5), (5, 7), (7, 9)]


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        # Costs are 5 5 8 | 3 9 | 7 6 4 5: a sentence joins while the sum stays below the limit.
        (("greedy", 12), [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 8), (8, 9)]),
        (("greedy", 13), [(0, 2), (2, 3), (3, 5), (5, 6), (6, 8), (8, 9)]),
        (("greedy", 1), ALONE),
        (("greedy", 100), RUNS),
        (("disjoint", None, 1), [(0, 2), (2, 3), (3, 5), (5, 7), (7, 9)]),
        (("disjoint", None, 0), ALONE),
        (("disjoint", None, 2), [(0, 3), (3, 5), (5, 8), (8, 9)]),
        # Target tokens are 5 3 8 | 3 4 | 6 6 4 3.
        (("parts", 11), [(0, 2), (2, 3), (3, 5), (5, 6), (6, 7), (7, 9)]),  # 12 + 7: 6 + 6 + 7
        (("parts", 19), RUNS),
        (("parts", 16), HALVES),  # 12 + 7 are nearer to halves than 6 + 13
    ],
)
def test_whole_instances(scheme, expected):
    assert made(*scheme) == [expected] * 3


def test_without_a_target_the_source_counts_alone():
    assert made("greedy", 16, target=None) == [[(0, 3), (3, 5), (5, 8), (8, 9)]] * 3
    assert made("parts", 16, target=None) == [HALVES] * 3


@pytest.mark.parametrize(
    ("scheme", "source", "target"),
    [
        (("sliding", None, 2), BEFORE, BEFORE),
        (("current", None, 2, 1), BEFORE, ONE_BEFORE),
        (("current", None, 2), BEFORE, ALONE),
        (("current", None, 0, 1), ALONE, ONE_BEFORE),
    ],
)
def test_a_sentence_after_its_context(scheme, source, target):
    assert made(*scheme) == [source, target, ALONE]


@pytest.mark.parametrize(
    ("lengths", "most", "expected"),
    [
        ([100] * 10, 400, [3, 4, 3]),  # greedily 4 + 4 + 2
        ([100] * 10, 1000, [10]),
        ([100] * 10, 999, [5, 5]),
        ([7] * 1000, 1000, [125] * 8),
        ([3, 500, 3, 3], 10, [1, 1, 2]),
        # Of 29 tokens, 9.67 and 19.33 are the shares; of 25, 8.33 and 16.67; of 24, 8 and 16.
        ([4, 7, 5, 7, 6], 12, [2, 2, 1]),  # 16 is nearer, but then 7 + 6 is left
        ([6, 7, 4, 5, 7], 12, [1, 2, 2]),  # 13 is nearer, and too long
        ([6, 7, 6, 6], 12, [1, 1, 2]),  # 19 is nearer, but 7 + 6 would be too long
        ([5, 6, 7, 6], 12, [2, 1, 1]),  # 5 is as near and earlier, but leaves 6 + 7
    ],
)
def test_parts_by_hand(lengths, most, expected):
    assert [last - first for first, last in parts(np.array(lengths), most)] == expected


def fewest(lengths, most):
    """The smallest number of parts, by trying all: best[i] for the first i sentences."""
    best = [0]
    for last in range(1, len(lengths) + 1):
        fits = [
            first for first in range(last) if last - first == 1 or sum(lengths[first:last]) <= most
        ]
        best.append(1 + min(best[first] for first in fits))
    return best[-1]


@given(st.lists(st.integers(2, 60), min_size=1, max_size=30), st.integers(2, 120))
def test_there_are_no_more_parts_than_are_needed(lengths, most):
    """And none is too long but of one sentence."""
    cuts = parts(np.array(lengths), most)
    assert [i for first, last in cuts for i in range(first, last)] == list(range(len(lengths)))
    assert all(last - first == 1 or sum(lengths[first:last]) <= most for first, last in cuts)
    assert len(cuts) == fewest(lengths, most)


def schemes(*kinds, **options):
    return st.builds(InstanceScheme, st.sampled_from(kinds), **options)


CONTEXT = st.integers(0, 4)
SCHEMES = st.one_of(
    schemes("greedy", "parts", tokens=st.integers(1, 90)),
    schemes("disjoint", "sliding", context=CONTEXT),
    schemes("current", context=CONTEXT, target_context=st.sampled_from([None, 0, 1, 5])),
)
LENGTHS = st.tuples(st.integers(2, 30), st.integers(2, 30))  # of a sentence and its translation
DOCUMENTS = st.lists(st.lists(LENGTHS, min_size=1, max_size=9), min_size=1, max_size=6)


@settings(max_examples=100)
@given(SCHEMES, DOCUMENTS, st.booleans())
def test_every_sentence_is_current_once_and_context_stands_before_it(scheme, documents, both):
    ends = np.cumsum([len(document) for document in documents]).tolist()
    runs = list(zip([0, *ends[:-1]], ends, strict=True))
    source, target = np.array(sum(documents, [])).T
    found = build_instances(scheme, source, target if both else None, runs)
    current = [i for first, last in found.current.tolist() for i in range(first, last)]
    assert current == list(range(ends[-1]))
    for side in (found.source, found.target):
        assert (side[:, 1] == found.current[:, 1]).all()
        assert (side[:, 0] <= found.current[:, 0]).all()
        for first, last in side.tolist():
            assert any(begin <= first < last <= end for begin, end in runs)


@pytest.mark.parametrize(
    "scheme", [("disjoint", None, 2), ("current", None, 2), ("current", None, 1, 3)], ids=str
)
def test_how_many_sentences_an_instance_may_have(scheme):
    sides = made(*scheme, runs=[(0, 9)])[:2]
    counts = [[last - first for first, last in side] for side in sides]
    scheme = InstanceScheme(*scheme)
    assert max(map(max, counts)) == scheme.max_sentences
    assert (counts[0] != counts[1]) == scheme.is_unequal
    assert (sum(counts[1]) > 9) == scheme.repeats_targets


@pytest.mark.parametrize(
    ("options", "named"),
    [(("sliding", None, 0), "--context-sentences N, 1"), (("greedy",), "--instance-tokens N")],
)
def test_options_that_cannot_be(options, named):
    with pytest.raises(UserError, match=named):
        made(*options)
