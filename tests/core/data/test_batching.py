"""Batches: by size and by document."""

import random

import numpy as np
import pytest

from gtransformer.data.batching import fill_batches, mixed


@pytest.mark.parametrize("by_document", [False, True])
def test_batches_hold_as_much_as_is_allowed(by_document):
    """Of one document, if these are given."""
    draw = random.Random(2)
    for _ in range(50):
        documents = np.repeat(range(draw.randint(1, 6)), draw.randint(1, 7))
        tokens = np.array([draw.randint(1, 60) for _ in documents])
        most_tokens, most = draw.choice([None, 50, 100]), draw.choice([None, 3, 10])
        indices = 7 * np.arange(len(documents))
        batches = fill_batches(
            indices, tokens, most_tokens, most, documents if by_document else None
        )
        assert np.concatenate(batches).tolist() == indices.tolist()  # every one, in order
        places = [batch // 7 for batch in batches]
        for batch, following in zip(places, [*places[1:], None], strict=True):
            total = tokens[batch].sum()
            assert len(batch) == 1 or most_tokens is None or total <= most_tokens
            assert most is None or len(batch) <= most
            assert not by_document or len(set(documents[batch])) == 1
            if following is not None:  # none could have taken more
                too_long = most_tokens is not None and total + tokens[following[0]] > most_tokens
                ends = by_document and documents[batch[0]] != documents[following[0]]
                assert too_long or len(batch) == most or ends
    assert fill_batches(np.array([], dtype=int), np.array([], dtype=int), 10, None) == []


def test_batches_of_documents_take_turns():
    documents = np.repeat([3, 1, 7], [5, 4, 6])
    orders = [mixed(documents, seed) for seed in range(20)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(15))
        for document in (1, 3, 7):
            own = [number for number in order.tolist() if documents[number] == document]
            assert own == sorted(own)
    assert len({tuple(order) for order in orders}) == 20 and np.array_equal(
        mixed(documents, 4), orders[4]
    )
