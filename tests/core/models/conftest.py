"""Random document pairs for models."""

import random
from typing import NamedTuple

import pytest
from fairseq.data import Dictionary
from torch import Tensor

from tests.core.models.oracle_checks import batch
from tests.support import random_document, random_lengths


class Pairs(NamedTuple):
    """A padded batch of document pairs."""

    source: Tensor
    previous: Tensor


@pytest.fixture
def make_pairs(dictionary: Dictionary):
    """make_pairs(seed, sentences, most=6): a batch with so many sentences per document.

    Source padded on the left.
    """

    def make(seed: int, sentences: list[int], most: int = 6) -> Pairs:
        draw = random.Random(seed)
        documents = [
            [random_document(draw, dictionary, random_lengths(draw, count, most, 0)) for _ in "st"]
            for count in sentences
        ]
        return Pairs(*batch(dictionary, documents))

    return make
