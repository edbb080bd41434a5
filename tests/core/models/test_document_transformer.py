"""The Document Transformer against its equations in NumPy: full pass and derivatives; what its parts see."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.models.document_transformer import DocumentTransformerConfig, DocumentTransformerModel, split_context
from tests.core.models.numpy_oracle import Oracle
from tests.core.models.oracle_checks import arrays, check_derivatives, check_every_step
from tests.core.search.conftest import Translator
from tests.full_passes import use_caches
from tests.support import drawn, pad_batch, random_document, with_engine

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
    model = with_engine(beside_model(dictionary, **OPTIONS[name]), engine)
    check_derivatives(model, dictionary, pairs(dictionary), Oracle, extra=1)


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


@torch.no_grad()
@pytest.mark.parametrize("caches", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_step_equals_the_oracle(dictionary, caches, name):
    model = beside_model(dictionary, **OPTIONS[name])
    oracle = Oracle(model.cfg, arrays(model), dictionary.bos(), dictionary.eos())
    check_every_step(model, dictionary, pairs(dictionary), oracle.logits, caches)


@torch.no_grad()
@pytest.mark.parametrize("name", ["both", "encoder", "prenorm residual decoder"])
def test_search_finds_one_sentence_with_caches_and_without(dictionary, name):
    """Beams change places, finished sentences leave; the context is encoded once for all."""
    model = beside_model(dictionary, **OPTIONS[name])
    sources = [source for source, _ in pairs(dictionary)]
    encoded = []
    model.encoder.context_encoder.layers[0].register_forward_hook(lambda *given: encoded.append(1))
    options = {"beam": 3, "max_len_a": 1, "max_len_b": 2, "nbest": 3}
    found = []
    for caches in (True, False):
        use_caches(model, caches)
        translate = Translator(dictionary, [model], **options)
        found.append(translate(sources))
        assert len(encoded) == len(found)
    found.append([one for source in sources for one in translate([source])])  # each by itself
    for source, ours, *others in zip(sources, *found, strict=True):
        words = len(source) - 2 - max(i for i, token in enumerate(source) if token == dictionary.bos())
        for one in ours:
            (sentence,) = translate.sentences(one)
            assert len(sentence) <= words + 2
        for other in others:
            assert [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in other]
            scores = [torch.stack([one["score"] for one in side]).double() for side in (ours, other)]
            assert torch.allclose(*scores, atol=1e-6)
