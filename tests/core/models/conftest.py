"""Random document pairs for models."""

import random
from dataclasses import dataclass

import pytest
from fairseq.data import Dictionary
from torch import Tensor

from tests.support import pad_batch, random_document, random_lengths


@dataclass
class Pairs:
    """A padded batch of document pairs."""

    source: Tensor
    previous: Tensor
    documents: list[tuple[list[int], list[int]]]


@pytest.fixture
def make_pairs(dictionary: Dictionary):
    """make_pairs(seed, sentences, most=6): a batch with so many sentences per document.

    Source padded on the left.
    """

    def make(seed: int, sentences: list[int], most: int = 6) -> Pairs:
        draw = random.Random(seed)
        documents = []
        for count in sentences:
            source, target = (
                random_document(draw, dictionary, random_lengths(draw, count, most, 0))
                for _ in "st"
            )
            documents.append((source, target))
        pad = dictionary.pad()
        return Pairs(
            pad_batch([s for s, _ in documents], pad, left=True),
            pad_batch([t for _, t in documents], pad, left=False),
            documents,
        )

    return make
