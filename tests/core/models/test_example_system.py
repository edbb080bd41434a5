"""The system that docs/new_system.md shows: who sees whom, in the full pass and in decoding."""

from __future__ import annotations

import importlib
import random

import pytest
import torch

from tests.core.search.test_beam import both_ways
from tests.dense import DensePattern
from tests.support import ROOT, drawn, ragged, random_document

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def neighbours():
    """The user-dir as a module; it stays imported, since a model is registered once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "example_system")
        return importlib.import_module("neighbours")


@pytest.mark.parametrize("causal", [True, False])
def test_who_sees_whom(neighbours, causal):
    """By the rule in words: the tag of a key is the query's or one less."""
    tags = [[1, 1, 2, 2, 2, 3], [1, 2, 2, 3, 4, 4, 4, 5], [1]]
    layout = ragged(tags)
    found = DensePattern(neighbours.WithPrevious().reach(layout, layout, causal)).allowed
    for document, row in enumerate(tags):
        for i, own in enumerate(row):
            seen = [
                j for j, tag in enumerate(row) if own - tag in (0, 1) and (j <= i or not causal)
            ]
            assert found[document, i].nonzero().flatten().tolist() == seen


@torch.no_grad()
@pytest.mark.parametrize("layers", [1, 3])
def test_search(neighbours, dictionary, layers):
    """With caches, against full passes; also where no layer sees the current sentence alone."""
    model = drawn(
        dictionary,
        neighbours.NeighboursModel,
        neighbours.NeighboursConfig,
        decoder_neighbour_layers=layers,
    )
    draw = random.Random(1)
    batch = [random_document(draw, dictionary, shape) for shape in ([3, 1, 2, 4], [2])]
    both_ways(dictionary, [model], batch, {"beam": 4}, sentence_rule="on")
