"""Documents of thousands of tokens: memory linear in their length, positions by the formula."""

import random

import pytest
import torch

from gtransformer.models.common.decoding.state import CachedState
from tests.core.search.conftest import Translator
from tests.support import tiny_model


def held(state: CachedState) -> int:
    """Elements of all caches of a state, source side included."""
    prefixes, view = state.prefixes, state.view
    stores = [prefixes.own, prefixes.shared, *view.shared.values()]
    tensors = [sides for store in stores for sides in store.sides.values()]
    tensors += [
        sides for pattern in view.patterns.values() for sides in pattern.reading.gathered.values()
    ]
    return sum(tensor.numel() for tensor in tensors)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("context", [0, 1])
def test_memory_is_linear_in_length(dictionary, documents, monkeypatch, context):
    """Eight times the sentences of 20 words: eight times the memory, and what doubling capacities
    reserves.
    """
    states = []
    init = CachedState.__init__
    monkeypatch.setattr(
        CachedState, "__init__", lambda self, *a, **b: (states.append(self), init(self, *a, **b))[1]
    )
    layers = {f"{name}_ctxlayers": context for name in ("encoder", "decoder", "cross")}
    model = tiny_model(dictionary, encoder_layers=1, decoder_layers=1, **layers)
    draw, sizes = random.Random(5), {}
    for sentences in (3, 24):
        translate = Translator(
            dictionary, [model], beam=3, max_len_a=1, max_len_b=0, min_len=1 << 20
        )
        ((found, *_),) = translate(documents(draw, [[20] * sentences]))
        assert len(found["tokens"]) == 22 * sentences
        sizes[sentences] = held(states.pop())
    assert sizes[24] < 2 * 8 * sizes[3]
