"""The Document Transformer against its equations in NumPy: full pass and derivatives; what its parts see."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.document_transformer import (
    JOINS,
    PLACES,
    DocumentTransformerConfig,
    DocumentTransformerModel,
    split_context,
)
from gtransformer.models.transformer import InstanceTransformerModel
from tests.core.models.numpy_oracle import Oracle
from tests.core.models.oracle_checks import (
    TOLERANCE,
    batch,
    check_derivatives,
    check_logits,
)
from tests.support import drawn, pad_batch, random_document, relative_error

pytestmark = pytest.mark.slow

# Words by sentence of the source, the last one being current, and of the target's one sentence.
SHAPES = [([3], 4), ([2, 4, 1], 2), ([0, 3], 0), ([1, 0, 0], 3), ([0], 1), ([2, 2, 2, 2, 3], 5)]
NORMS = {"encoder_normalize_before": True, "decoder_normalize_before": True}
OPTIONS = {
    "both": {},
    "encoder": {"context_in": "encoder"},
    "decoder": {"context_in": "decoder", "context_of_first": "itself"},
    "residual": {"context_join": "residual", "context_layers": 2},
    "prenorm": {**NORMS, "context_layers": 2},
    "prenorm residual decoder": {**NORMS, "context_join": "residual", "context_in": "decoder"},
    "wider encoder": {
        "share_all_embeddings": False, "encoder_embed_dim": 20, "encoder_learned_pos": True,
        "max_source_positions": 40, "context_of_first": "itself",
    },
}  # fmt: skip


def beside_model(dictionary, model=DocumentTransformerModel, config=DocumentTransformerConfig, **options):
    """A tiny model in float64 with weights drawn wide."""
    return drawn(dictionary, model, config, **{"encoder_layers": 2, "decoder_layers": 2, **options})


def pairs(dictionary) -> list[tuple[list[int], list[int]]]:
    """The sentences of SHAPES."""
    draw = random.Random(2)
    return [
        (random_document(draw, dictionary, before), random_document(draw, dictionary, [words]))
        for before, words in SHAPES
    ]


@pytest.mark.parametrize(("engine", "name"), [*(("packed", name) for name in OPTIONS), ("dense", "both")])
def test_forward_and_backward_equal_the_oracle(dictionary, engine, name):
    model = beside_model(dictionary, group_attention=engine, **OPTIONS[name])
    check_derivatives(model, dictionary, pairs(dictionary), Oracle)


@torch.no_grad()
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("norms", [{}, NORMS], ids=["postnorm", "prenorm"])
def test_every_kind_equals_the_oracle(dictionary, place, join, norms):
    """With one and two layers of the context encoder."""
    for layers in (1, 2):
        model = beside_model(dictionary, context_in=place, context_join=join, context_layers=layers, **norms)
        check_logits(model, dictionary, pairs(dictionary), Oracle)


@torch.no_grad()
@pytest.mark.parametrize(("engine", "training"), [("packed", False), ("packed", True), ("dense", False)])
def test_nothing_depends_on_padding_or_the_batch(dictionary, engine, training):
    model = beside_model(dictionary, group_attention=engine).train(training)
    documents = pairs(dictionary)
    source, target = batch(dictionary, documents)
    together = model(source, None, target)[0]
    for row, pair in enumerate(documents):
        for extra in (0, 3):
            source, target = batch(dictionary, [pair], extra)
            for one in (source, source.roll(-extra, dims=1)):  # padded on the left, and on the right
                alone = model(one, None, target)[0]
                assert relative_error(alone[0, : len(pair[1])], together[row, : len(pair[1])]) < TOLERANCE


def test_current_and_context_by_hand(dictionary):
    bos, eos, pad = dictionary.bos(), dictionary.eos(), dictionary.pad()
    rows = [[bos, 4, 5, eos, bos, eos, bos, 6, eos, bos, 7, eos], [bos, 8, 9, eos], [bos, eos, bos, 4, eos]]
    tokens = pad_batch(rows, pad, left=True, extra=1)
    for itself, second in ((False, [eos]), (True, [8, 9, eos])):
        current, context, tags = split_context(tokens, bos, eos, pad, itself)
        kept = [[row[row != pad].tolist() for row in side] for side in (current, context)]
        assert kept[0] == [[bos, 7, eos], [bos, 8, 9, eos], [bos, 4, eos]]
        assert kept[1] == [[4, 5, 6, eos], second, [eos]]
        assert tags[context != pad].tolist() == [1, 1, 3, 3, *[1] * len(second), 1]
        assert not tags[context == pad].any()


@torch.no_grad()
def test_what_the_context_changes(dictionary):
    """Every word of it changes the result, in encoder and decoder; ``itself`` changes single sentences alone."""
    draw = random.Random(5)
    source = random_document(draw, dictionary, [2, 1, 3])
    target = torch.tensor([random_document(draw, dictionary, [3])])
    for place in ("encoder", "decoder", "both"):
        model = beside_model(dictionary, context_in=place)
        logits = model(torch.tensor([source]), None, target)[0]
        for position in (1, 2, 5):
            other = list(source)
            other[position] = other[position] % 12 + 4
            assert other != source
            assert (model(torch.tensor([other]), None, target)[0] - logits).abs().amax(dim=2).min() > 1e-6
            states = [model.encoder(torch.tensor([one]))["memory"][0].states for one in (source, other)]
            assert torch.equal(*states) == (place == "decoder")
        itself = beside_model(dictionary, context_in=place, context_of_first="itself")
        assert torch.equal(itself(torch.tensor([source]), None, target)[0], logits)
        alone = [one(torch.tensor([source[7:]]), None, target)[0] for one in (model, itself)]
        assert not torch.allclose(*alone)


class Ones(nn.Module):
    """A gate that lets nothing of the context through."""

    def forward(self, own, found):
        return torch.ones_like(own)


@torch.no_grad()
@pytest.mark.parametrize("norms", [{}, NORMS])
def test_with_gates_of_one_it_is_the_sentence_model_that_it_starts_from(dictionary, norms):
    """The norm behind the gate passed by, with which a post-norm layer normalises once more."""
    sentence = beside_model(dictionary, InstanceTransformerModel, DocumentModelConfig, **norms)
    model = beside_model(dictionary, load_partial=True, **norms)
    model.load_state_dict(sentence.state_dict())
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.context_attn_gate, layer.context_attn_layer_norm = Ones(), nn.Identity()
    source, target = batch(dictionary, pairs(dictionary))
    current = split_context(source, dictionary.bos(), dictionary.eos(), dictionary.pad(), False)[0]
    expected = sentence(current, None, target)[0]
    assert relative_error(model(source, None, target)[0], expected) < TOLERANCE
    opened = beside_model(dictionary, load_partial=True, **norms)
    opened.load_state_dict(sentence.state_dict())
    assert relative_error(opened(source, None, target)[0], expected) > 1e-3


def test_dropout_is_everywhere_but_on_the_contexts_embeddings_and_what_a_gate_takes_in(dictionary, monkeypatch):
    """With all dropped out: the context encoder reads its embeddings, and a gate mixes in what attention found."""
    model = beside_model(dictionary, dropout=1.0).train()
    read = {}
    for name in ("context_encoder.layers.0", "layers.0"):
        model.encoder.get_submodule(name).register_forward_pre_hook(
            lambda module, given, name=name: read.__setitem__(name, given[0])
        )
    gates, joined = [], []
    layer = model.encoder.layers[0]
    layer.context_attn_gate.register_forward_hook(lambda module, given, out: gates.append((*given, out)))
    layer.context_attn_layer_norm.register_forward_pre_hook(lambda module, given: joined.append(given[0]))
    source = torch.tensor([pairs(dictionary)[1][0]])
    model.encoder(source)
    assert not read["layers.0"].any()
    assert (read["context_encoder.layers.0"].abs().sum(dim=1) > 0).all()
    own, found, weight = gates[0]
    assert found.any()
    torch.testing.assert_close(joined[0], weight * own + (1 - weight) * found)  # a residual connection would drop it


def test_recomputed_activations_and_autocast(dictionary):
    """Gradients with recomputed activations are the same; in bfloat16 the full pass is near to that in float32."""
    source, target = batch(dictionary, pairs(dictionary))
    grads = []
    for recompute in (False, True):
        model = beside_model(dictionary, checkpoint_activations=recompute).train()
        model(source, None, target)[0].logsumexp(dim=2).sum().backward()
        grads.append({name: parameter.grad for name, parameter in model.named_parameters()})
    assert all(torch.equal(one, grads[1][name]) for name, one in grads[0].items())
    with torch.no_grad():
        exact = beside_model(dictionary).float()(source, None, target)[0]
        rough = beside_model(dictionary, autocast="bfloat16").float()(source, None, target)[0]
    # With weights drawn wide, rounding grows: float32 differs from float64 twenty times as much as a Transformer's.
    assert 0 < (rough - exact).abs().mean() / exact.abs().mean() < 0.1
