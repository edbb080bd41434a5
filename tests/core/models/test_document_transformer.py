"""Search by the Document Transformer."""

from __future__ import annotations

import pytest
import torch

from tests.core.models.test_numpy import SYSTEMS, pairs
from tests.core.search.test_beam import both_ways

pytestmark = pytest.mark.slow


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["context", "context, encoder", "context, prenorm residual decoder"]
)
def test_search(dictionary, name):
    """Of one sentence, with the context of each; with caches, against full passes."""
    sources = [source for source, _ in pairs(dictionary)]
    both_ways(dictionary, [SYSTEMS[name][0](dictionary)], sources, {"beam": 3})
