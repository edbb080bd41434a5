"""What is recorded is what the model does: maps, masses and gates against computations by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.lab.analysis.attention import inspect, sentence_means
from gtransformer.lab.analysis.attention_shown import draw_attention, draw_gates, drawn_text, gate_table, to_json
from tests.support import fairseqs_model, random_document, tiny_model, with_engine

pytestmark = pytest.mark.slow

LENGTHS = [3, 1, 4]  # words; a sentence has two tokens more


def document(dictionary, seed: int) -> list[int]:
    import random

    return random_document(random.Random(seed), dictionary, LENGTHS)


def look(model, dictionary):
    return inspect(model, document(dictionary, 1), document(dictionary, 2))


def test_sentence_means_by_hand():
    """Eq. 12: two sentences of two and one queries, two of one and two keys; the first query is of no sentence."""
    weights = torch.tensor([[0.9, 0.0, 0.1], [0.2, 0.5, 0.3], [0.4, 0.6, 0.0], [1.0, 0.0, 0.0]])
    found = sentence_means(weights, torch.tensor([0, 1, 1, 2]), torch.tensor([1, 2, 2]))
    expected = [[(0.2 + 0.4) / 2, (0.5 + 0.3 + 0.6 + 0.0) / 4], [1.0, 0.0]]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64))


def test_group_attention_stays_in_its_sentence_and_the_decoder_does_not_look_ahead(dictionary):
    found = look(tiny_model(dictionary), dictionary)
    assert [(part, len(found.find(part, "group")), len(found.find(part, "global"))) for part in found.tags] == [
        ("encoder", 3, 2), ("decoder", 3, 2), ("cross", 3, 2)
    ]  # fmt: skip
    tokens = np.array(LENGTHS) + 2
    for one in found.maps:
        tags = found.tags[one.part]
        inside = tags > 0
        if one.part != "decoder":
            assert np.allclose(one.mass.sum(axis=1), 1, atol=1e-6)
        if one.reach == "group":
            own = np.eye(3)[tags[inside] - 1]
            assert np.allclose(one.mass[inside], own, atol=1e-6)
            # All of it on the own sentence, so the mean of the patch is one over its keys.
            assert np.allclose(one.mean, np.diag(1 / tokens), atol=1e-6)
        elif one.part == "decoder":
            assert np.allclose(np.triu(one.mean, 1), 0) and np.all(np.diag(one.mean) > 0)
            assert np.all(np.tril(one.mean, -1)[1:].sum(axis=1) > 0)
        else:
            assert np.all(one.mean > 0)
            # Each row's patches weighted by their width are the attention of a sentence: all of it.
            assert np.allclose(one.mean @ tokens, 1, atol=1e-6)


def test_global_attention_equals_a_computation_by_hand(dictionary):
    """One encoder layer: queries and keys are the embeddings, and Eq. 5 is written out for each head and token."""
    model = tiny_model(dictionary, encoder_layers=1, encoder_ctxlayers=1)
    source = document(dictionary, 1)
    encoder = model.encoder
    with torch.no_grad():
        length = len(source)
        x = encoder.embed(torch.tensor(source), torch.arange(length), length)
        module = encoder.layers[0].self_attn_global
        q, k = module.q_proj(x).view(length, 2, 8), module.k_proj(x).view(length, 2, 8)
        weights = torch.zeros(length, length)
        for head in range(2):
            for token in range(length):
                scores = torch.stack([q[token, head] @ k[key, head] / math.sqrt(8) for key in range(length)])
                weights[token] += scores.exp() / scores.exp().sum() / 2
    (found,) = look(model, dictionary).find("encoder", "global")
    bounds = np.cumsum([0, *(words + 2 for words in LENGTHS)])
    for i in range(3):
        for j in range(3):
            patch = weights[bounds[i] : bounds[i + 1], bounds[j] : bounds[j + 1]]
            assert found.mean[i, j] == pytest.approx(patch.mean().item(), abs=1e-6)


@pytest.mark.parametrize(("bias", "gate"), [(50.0, 1.0), (-50.0, 0.0)])
def test_the_gate_decides_what_was_drawn_on(dictionary, bias, gate):
    """A gate of 1 leaves group attention alone: every sentence drew on its own; a gate of 0 global attention."""
    model = tiny_model(dictionary)
    for layer in model.decoder.layers[1:]:
        nn.init.constant_(layer.encoder_attn_gate[0].bias, bias)
        nn.init.zeros_(layer.encoder_attn_gate[0].weight)
    found = look(model, dictionary)
    values = [one for one in found.gates if one.part == "cross"]
    assert [one.layer for one in values] == [2, 3]
    assert all(np.allclose(one.sentences, gate, atol=1e-6) and len(one.sentences) == 3 for one in values)
    drawn = found.drawn_from()
    assert drawn.shape == (3, 3) and np.allclose(drawn.sum(axis=1), 1, atol=1e-6)
    if gate:
        assert np.allclose(drawn, np.eye(3), atol=1e-6)
    else:
        tokens = np.array(LENGTHS) + 2
        expected = np.mean([one.mean * tokens for one in found.find("cross", "global")], axis=0)
        assert np.allclose(drawn, expected, atol=1e-6)


def test_gates_by_sentence_are_means_over_tokens_and_channels(dictionary):
    model = tiny_model(dictionary)
    kept = []
    handle = model.encoder.layers[2].self_attn_gate.register_forward_hook(lambda *call: kept.append(call[2]))
    found = look(model, dictionary)
    handle.remove()
    values = next(one for one in found.gates if (one.part, one.layer) == ("encoder", 3)).sentences
    bounds = np.cumsum([0, *(words + 2 for words in LENGTHS)])
    expected = [kept[0][a:b].mean().item() for a, b in zip(bounds, bounds[1:], strict=False)]
    assert values == pytest.approx(expected, abs=1e-6) and 0 < min(expected) < max(expected) < 1


def test_the_model_is_left_as_it_was(dictionary):
    model = tiny_model(dictionary)
    source, previous = torch.tensor([document(dictionary, 1)]), torch.tensor([document(dictionary, 2)])
    before = model(source, None, previous)[0]
    look(model, dictionary)
    assert not any(module._forward_hooks for module in model.modules())
    assert torch.equal(model(source, None, previous)[0], before)


def test_plain_transformer_over_the_document(dictionary, tmp_path):
    """--doc-mode full: no groups and no gates; cross-attention alone says what was drawn on."""
    model = tiny_model(dictionary, doc_mode="full")
    found = look(model, dictionary)
    assert not found.gates and not [one for one in found.maps if one.reach == "group"]
    drawn = found.drawn_from()
    assert np.allclose(drawn.sum(axis=1), 1, atol=1e-6) and not np.allclose(drawn, np.eye(3), atol=0.1)
    draw_attention(found, tmp_path / "attention.png", "title")
    assert gate_table(found) == "no layer has a gate"


def test_global_attention_alone_on_the_top_layers(dictionary, tmp_path):
    """No layer has a gate; what was drawn on is the mean of a layer with group and two with global attention."""
    found = look(tiny_model(dictionary, context_attention="global"), dictionary)
    assert not found.gates
    layers = {reach: [one.layer for one in found.find("cross", reach)] for reach in ("group", "global")}
    assert layers == {"group": [1], "global": [2, 3]}
    tokens = np.array(LENGTHS) + 2
    expected = (np.eye(3) + sum(one.mean * tokens for one in found.find("cross", "global"))) / 3
    assert np.allclose(found.drawn_from(), expected, atol=1e-6)
    draw_attention(found, tmp_path / "attention.png", "title")


def test_other_models_are_refused(dictionary):
    for model in (nn.Linear(1, 1), fairseqs_model(dictionary)):
        with pytest.raises(UserError, match=type(model).__name__):
            inspect(model, [0, 4, 2], [0, 4, 2])


@pytest.mark.parametrize("mode", ["partial", "full"])
def test_whatever_the_models_engine(dictionary, mode):
    """Maps and gates are those of the dense engine, and the model computes them with its own."""
    model = tiny_model(dictionary, doc_mode=mode).double()
    packed, dense = look(model, dictionary), look(with_engine(model, "dense"), dictionary)
    assert len(packed.maps) == len(dense.maps) and len(packed.gates) == len(dense.gates)
    for one, other in zip(packed.maps, dense.maps, strict=True):
        assert (one.part, one.reach, one.layer) == (other.part, other.reach, other.layer)
        assert np.allclose(one.mean, other.mean, rtol=0, atol=1e-12)
        assert np.allclose(one.mass, other.mass, rtol=0, atol=1e-12)
    for one, other in zip(packed.gates, dense.gates, strict=True):
        assert np.allclose(one.tokens, other.tokens, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_text_and_pictures(dictionary, tmp_path):
    found = look(tiny_model(dictionary), dictionary)
    drawn = found.drawn_from()
    text = drawn_text(found, ["a", "b", "c"], ["A", "B", "C"], first=11, top=2)
    assert [line.split()[:2] for line in text.split("\n\n")] == [["11", "a"], ["12", "b"], ["13", "c"]]
    order = np.argsort(-drawn[1])
    expected = f"drew on {11 + order[0]} ({100 * drawn[1, order[0]]:.1f} %), {11 + order[1]} ("
    assert expected in text.split("\n\n")[1]
    assert len(gate_table(found).splitlines()) == 2 + 6
    value = json.loads(json.dumps(to_json(found)))
    assert len(value["maps"]) == 15 and len(value["gates"]) == 6
    assert np.allclose(value["drew_on"], drawn, atol=1e-6)
    for draw in (draw_attention, draw_gates):
        draw(found, tmp_path / "picture.png", "title")
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]
