"""What is recorded of a context: who looks at which of its sentences, and gates, against computations by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from gtransformer.lab.analysis.attention import inspect
from gtransformer.lab.analysis.attention_shown import draw_attention, draw_gates, gate_table, to_json
from gtransformer.lab.analysis.watching import CONTEXT_PARTS
from tests.core.models.test_document_transformer import beside_model
from tests.support import random_document

pytestmark = pytest.mark.slow

WORDS = [2, 3, 4]  # of the source's sentences, the last one current


def look(model, dictionary):
    draw = random.Random(4)
    return inspect(model, random_document(draw, dictionary, WORDS), random_document(draw, dictionary, [3]))


@torch.no_grad()
def test_attention_to_the_context_and_gates_by_hand(dictionary):
    """Eq. 12 and 22 of Zhang et al. (2018) for each head and token; the context is a a b b b </s>."""
    model, seen = beside_model(dictionary, context_layers=2), {}
    layer = model.decoder.layers[1]
    layer.context_attn_local.register_forward_hook(lambda module, given, out: seen.update(given=given, out=out))
    found = look(model, dictionary)
    x, states = (one.numpy() for one in seen["given"][:2])
    module, sentence = layer.context_attn_local, np.array([0, 0, 1, 1, 1, 1])
    q, k = (
        (side @ one.weight.numpy().T + one.bias.numpy()).reshape(-1, 2, 8)
        for side, one in ((x, module.q_proj), (states, module.k_proj))
    )
    assert len(k) == len(sentence) and len(q) == 5
    mass = np.zeros((5, 2))
    for head in range(2):
        scores = np.exp(q[:, head] @ k[:, head].T / np.sqrt(8))
        for key, number in enumerate(sentence):
            mass[:, number] += scores[:, key] / scores.sum(axis=1) / 2
    maps = found.find("decoder_context", "global")
    assert [one.layer for one in maps] == [1, 2] and np.allclose(maps[1].mass, mass, atol=1e-12)
    weight = layer.context_attn_gate(*(torch.from_numpy(x), seen["out"])).mean(dim=1)
    (gate,) = [one for one in found.gates if (one.part, one.layer) == ("decoder_context", 2)]
    assert np.allclose(gate.tokens, weight) and gate.sentences == pytest.approx([weight.mean().item()])
    assert [(one.layer, one.mean.shape) for one in found.find("context", "global")] == [(1, (2, 2)), (2, (2, 2))]


@pytest.mark.parametrize("options", [{}, {"context_join": "residual"}, {"context_in": "decoder"}])
def test_numbers_and_pictures(dictionary, tmp_path, options):
    """Without a gate there is none to be shown; nothing of the encoder where it does not look."""
    found = look(beside_model(dictionary, **options), dictionary)
    there = {one.part for one in found.maps} & set(CONTEXT_PARTS)
    assert there == set(CONTEXT_PARTS) - ({"encoder_context"} if "context_in" in options else set())
    numbers = to_json(found)
    gates = {gate["part"]: gate["tokens"] for gate in numbers["gates"]}
    assert set(gates) == (set() if "context_join" in options else there - {"context"})
    assert all(len(tokens) == {"e": 6, "d": 5}[part[0]] for part, tokens in gates.items())
    assert ("no layer has a gate" if not gates else "decoder_context") in gate_table(found)
    if not options:
        draw_attention(found, tmp_path / "attention.png", "title")
        draw_gates(found, tmp_path / "gates.png", "title")
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
