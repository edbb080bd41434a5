"""Batches: by size and by document."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtransformer.data.batching import fill_batches


@pytest.mark.parametrize("by_document", [False, True])
@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=7), max_size=6),
    st.sampled_from([None, 50, 100]),
    st.sampled_from([None, 3, 10]),
)
def test_batches_hold_as_much_as_is_allowed(by_document, lengths, most_tokens, most):
    """Of one document, if these are given."""
    documents = np.repeat(range(len(lengths)), [len(one) for one in lengths])
    tokens = np.array(sum(lengths, []), dtype=int)
    indices = 7 * np.arange(len(documents))
    batches = fill_batches(indices, tokens, most_tokens, most, documents if by_document else None)
    assert [index for batch in batches for index in batch] == indices.tolist()  # in order
    places = [batch // 7 for batch in batches]
    for batch, following in pairwise([*places, None]):
        total = tokens[batch].sum()
        assert len(batch) == 1 or most_tokens is None or total <= most_tokens
        assert most is None or len(batch) <= most
        assert not by_document or len(set(documents[batch])) == 1
        if following is not None:  # none could have taken more
            too_long = most_tokens is not None and total + tokens[following[0]] > most_tokens
            ends = by_document and documents[batch[0]] != documents[following[0]]
            assert too_long or len(batch) == most or ends
