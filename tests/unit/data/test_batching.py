"""Batches: by size, by document, and as many for each process."""

import logging
import random

import numpy as np
import pytest

from gtransformer.data.batching import document_order, fill_batches, make_divisible


def test_batches_hold_as_many_real_tokens_as_allowed():
    draw = random.Random(2)
    for _ in range(50):
        tokens = np.array([draw.randint(1, 60) for _ in range(draw.randint(1, 40))])
        indices = np.array(draw.sample(range(1000), len(tokens)))
        most_tokens, most = draw.choice([None, 50, 100]), draw.choice([None, 3, 10])
        batches = fill_batches(indices, tokens, most_tokens, most)
        assert np.concatenate(batches).tolist() == indices.tolist()  # every one, in order
        size = dict(zip(indices.tolist(), tokens.tolist(), strict=True))
        filled = [sum(size[i] for i in batch.tolist()) for batch in batches]
        for batch, total in zip(batches, filled, strict=True):
            assert len(batch) == 1 or most_tokens is None or total <= most_tokens
            assert most is None or len(batch) <= most
        for batch, total, following in zip(batches, filled, batches[1:], strict=False):  # none could have taken more
            too_long = most_tokens is not None and total + size[following[0]] > most_tokens
            assert too_long or len(batch) == most
    assert fill_batches(np.array([], dtype=int), np.array([], dtype=int), 10, None) == []


def test_a_batch_ends_with_its_document():
    draw = random.Random(3)
    for _ in range(50):
        documents = np.repeat(range(draw.randint(1, 6)), draw.randint(1, 7))
        tokens = np.array([draw.randint(1, 60) for _ in documents])
        most_tokens, most = draw.choice([None, 100]), draw.choice([None, 3])
        batches = fill_batches(np.arange(len(documents)), tokens, most_tokens, most, documents)
        assert np.concatenate(batches).tolist() == list(range(len(documents)))
        for batch, following in zip(batches, batches[1:], strict=False):
            assert len(set(documents[batch])) == 1
            full = len(batch) == most or (most_tokens and tokens[batch].sum() + tokens[following[0]] > most_tokens)
            assert full or documents[batch[0]] != documents[following[0]]


def test_order_of_documents():
    places = np.array([(1, 2), (0, 5), (1, 0), (0, 0), (2, 1)])
    assert document_order(places).tolist() == [3, 1, 2, 0, 4]


@pytest.mark.parametrize("shards", [1, 2, 3, 5, 8])
def test_the_fullest_batches_are_halved(shards):
    batches = [np.arange(0, 4), np.arange(4, 5), np.arange(5, 12), np.arange(12, 14)]
    found = make_divisible(batches, shards)
    assert len(found) % shards == 0 and len(found) < 4 + shards
    assert np.concatenate(found).tolist() == list(range(14))
    if shards == 5:
        assert [len(batch) for batch in found] == [4, 1, 4, 3, 2]


def test_batches_of_one_instance_cannot_be_halved(caplog):
    with caplog.at_level(logging.WARNING):
        assert len(make_divisible([np.array([0]), np.array([1])], 3)) == 2
    assert "2 batches of one instance each for 3 processes" in caplog.text
