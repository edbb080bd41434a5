"""Group tags of tokens (Eq. 3)."""

import random

import pytest
import torch

from gtransformer.data.group_tags import group_tags
from tests.support import pad_batch, random_document

S, P, E, A = 0, 1, 2, 4  # <s>, <pad>, </s>, w0


@pytest.mark.parametrize(
    ("tokens", "tags"),
    [
        ([S, A, A, E, S, A, E], [1, 1, 1, 1, 2, 2, 2]),
        ([S, S, S], [1, 2, 3]),
        ([P, P], [0, 0]),
    ],
)
def test_hand_made(tokens, tags):
    assert group_tags(torch.tensor([tokens]), S, P).tolist() == [tags]


def test_random_batches(dictionary):
    draw = random.Random(1)
    lengths = [[draw.randint(0, 5) for _ in range(draw.randint(1, 9))] for _ in range(20)]
    documents = [random_document(draw, dictionary, shape) for shape in lengths]
    for left in (True, False):
        tags = group_tags(pad_batch(documents, P, left, extra=2), S, P)
        for row, shape in zip(tags.tolist(), lengths, strict=True):
            expected = [number for number, words in enumerate(shape, 1) for _ in range(words + 2)]
            assert [tag for tag in row if tag] == expected
            assert row.count(0) == len(row) - len(expected)
