"""Who sees whom, pair by pair, against what is meant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtransformer.modules.packed import BLOCK, PackedPattern
from gtransformer.modules.reach import Reach, by_document, by_sentence, by_window
from tests.support import ragged

# Three documents, padded on either side, of which some sentences may have no tokens.
TAGS = st.lists(st.integers(1, 3), min_size=1, max_size=12).map(sorted)
LAYOUTS = st.builds(ragged, st.tuples(TAGS, TAGS, TAGS).map(list), left=st.booleans())


def pairs(reach: Reach) -> set[tuple[int, int]]:
    """All (query, key) of a reach, after its own promises have been checked."""
    first, last = reach.first, reach.last
    assert first.dtype == last.dtype == np.int64
    assert (0 <= first).all() and (first <= last).all() and (last <= reach.keys.total).all()
    return {(i, j) for i in range(reach.queries.total) for j in range(first[i], last[i])}


def expected(queries, keys, sees, causal: bool) -> set[tuple[int, int]]:
    return {
        (i, j)
        for i in range(queries.total)
        for j in range(keys.total)
        if queries.doc[i] == keys.doc[j]
        and sees(i, j)
        and (not causal or keys.position[j] <= queries.position[i])
    }  # fmt: skip


@pytest.mark.parametrize("causal, own", [(True, True), (False, True), (False, False)])
@given(LAYOUTS, LAYOUTS, st.lists(st.integers(0, 11), min_size=1), st.sampled_from([0, 1, 3, 50]))
def test_pairs(causal, own, queries, keys, numbers, width):
    keys = queries if own else keys
    assert pairs(by_document(queries, keys, causal)) == expected(
        queries, keys, lambda i, j: True, causal
    )
    by_tag = expected(queries, keys, lambda i, j: queries.tag[i] == keys.tag[j], causal)
    assert pairs(by_sentence(queries, keys, causal)) == by_tag
    centres = np.resize(numbers, queries.total) % keys.doc_lengths[queries.doc]
    near = expected(queries, keys, lambda i, j: abs(keys.position[j] - centres[i]) <= width, causal)
    assert pairs(by_window(queries, keys, centres, width, causal)) == near


def test_blocks_where_every_query_has_a_window_of_its_own():
    """Elsewhere a segment is what has its keys in common."""
    side = ragged([[1 + i // 10 for i in range(200)]] * 3)
    for causal in (True, False):
        reaches = {
            60: by_sentence(side, side, causal),
            3: by_document(side, side, causal),
            -(-600 // BLOCK): by_window(side, side, side.position, 20, causal),
        }
        for segments, reach in reaches.items():
            assert len(PackedPattern(reach).segments) == segments
