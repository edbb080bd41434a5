"""What can be watched: any system that declares its attention, with its own scopes and relative positions."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from gtransformer.lab.analysis.attention import inspect
from gtransformer.lab.analysis.entropy import EntropyMeter
from gtransformer.lab.analysis.watching import AttentionSite, can_be_watched, declared
from tests.core.models.test_declared_blocks import DECLARED, declared_model
from tests.support import fairseqs_model, random_document, tiny_model, with_engine

LENGTHS = [3, 1, 4]


@pytest.mark.parametrize("engine", ["packed", "dense"])
@pytest.mark.parametrize("name", ["near, relative", "relative"])
@torch.no_grad()
def test_weights_with_scopes_of_a_system_of_its_own(dictionary, name, engine):
    """The lowest layer of the encoder by hand: q . (k + r) over the keys of the scope, head by head."""
    own, cross, clip = DECLARED[name]
    model = with_engine(declared_model(dictionary, own, cross, clip), engine)
    source, target = (random_document(random.Random(seed), dictionary, LENGTHS) for seed in (1, 2))
    length = len(source)
    x = model.encoder.embed(torch.tensor(source), torch.arange(length), length)
    module = model.encoder.layers[0].self_attn_local
    q, k = module.q_proj(x).unflatten(-1, (module.heads, -1)), module.k_proj(x).unflatten(-1, (module.heads, -1))
    weights = torch.zeros(length, length, dtype=torch.float64)
    for i in range(length):
        seen = [j for j in range(length) if "near" not in name or abs(i - j) <= 2]
        for head in range(module.heads):
            near = {j: module.relative.weight[max(-clip, min(clip, j - i)) + clip] for j in seen}
            scores = torch.stack([q[i, head] @ (k[j, head] + near[j]) / math.sqrt(8) for j in seen])
            weights[i, seen] += scores.softmax(dim=0) / module.heads
    (found, *_) = [one for one in inspect(model, source, target).maps if (one.part, one.layer) == ("encoder", 1)]
    bounds = np.cumsum([0, *(words + 2 for words in LENGTHS)])
    mass = np.stack([weights[:, a:b].sum(dim=1) for a, b in zip(bounds, bounds[1:], strict=False)], axis=1)
    assert found.reach == own[0][0].name and np.allclose(found.mass, mass, rtol=0, atol=1e-12)

    meter = EntropyMeter()
    with meter.on(model):
        model(torch.tensor([source]), None, torch.tensor([target]))
    bits = -(weights * weights.clamp_min(1e-300).log2()).sum()
    assert meter.tallies[AttentionSite("encoder", own[0][0].name, 1)].bits.item() == pytest.approx(
        bits.item(), rel=1e-12
    )


@torch.no_grad()
def test_a_module_with_two_scopes_is_seen_at_both(dictionary):
    model = declared_model(dictionary, *DECLARED["concatenated"])
    found = inspect(model, *(random_document(random.Random(seed), dictionary, LENGTHS) for seed in (1, 2)))
    assert {(one.part, one.reach) for one in found.maps} == {
        *((part, reach) for part in ("encoder", "decoder") for reach in ("group", "global")), ("cross", "global")
    }  # fmt: skip


def test_who_can_be_watched(dictionary):
    model = tiny_model(dictionary)
    assert can_be_watched(model) and not can_be_watched(fairseqs_model(dictionary))
    assert not can_be_watched(torch.nn.Linear(1, 1))
    parts = [(part, number) for part, number, _, _ in declared(model)]
    everything = [("encoder", n) for n in (1, 2, 3)] + [(part, n) for n in (1, 2, 3) for part in ("decoder", "cross")]
    assert parts == everything
