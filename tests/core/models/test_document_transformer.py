"""The Document Transformer: its context, dropout, search."""

from __future__ import annotations

import pytest
import torch

from gtransformer.models.document_transformer import (
    DocumentTransformerConfig,
    DocumentTransformerModel,
)
from tests.core.models.test_numpy import SMALL, SYSTEMS, pairs
from tests.core.search.conftest import Translator
from tests.full_passes import use_caches
from tests.support import drawn

pytestmark = pytest.mark.slow


def beside_model(
    dictionary, model=DocumentTransformerModel, config=DocumentTransformerConfig, **options
):
    """A tiny model in float64 with weights drawn wide."""
    return drawn(dictionary, model, config, **SMALL | options)


def test_dropout_is_everywhere_but_on_the_contexts_embeddings_and_what_a_gate_takes_in(
    dictionary, monkeypatch
):
    """With all dropped out: the context encoder reads its embeddings, and a gate mixes in what
    attention found.
    """
    model = beside_model(dictionary, dropout=1.0).train()
    read = {}
    for name in ("context_encoder.layers.0", "layers.0"):
        model.encoder.get_submodule(name).register_forward_pre_hook(
            lambda module, given, name=name: read.__setitem__(name, given[0])
        )
    gates, joined = [], []
    layer = model.encoder.layers[0]
    layer.context_attn_gate.register_forward_hook(
        lambda module, given, out: gates.append((*given, out))
    )
    layer.context_attn_layer_norm.register_forward_pre_hook(
        lambda module, given: joined.append(given[0])
    )
    source = torch.tensor([pairs(dictionary)[1][0]])
    model.encoder(source)
    assert not read["layers.0"].any()
    assert (read["context_encoder.layers.0"].abs().sum(dim=1) > 0).all()
    own, found, weight = gates[0]
    assert found.any()
    torch.testing.assert_close(
        joined[0], weight * own + (1 - weight) * found
    )  # a residual connection would drop it


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["context", "context, encoder", "context, prenorm residual decoder"]
)
def test_search_finds_one_sentence_with_caches_and_without(dictionary, name):
    """Beams change places, finished sentences leave; the context is encoded once for all."""
    model = SYSTEMS[name][0](dictionary)
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
        words = (
            len(source) - 2 - max(i for i, token in enumerate(source) if token == dictionary.bos())
        )
        for one in ours:
            (sentence,) = translate.sentences(one)
            assert len(sentence) <= words + 2
        for other in others:
            assert [one["tokens"].tolist() for one in ours] == [
                one["tokens"].tolist() for one in other
            ]
            scores = [
                torch.stack([one["score"] for one in side]).double() for side in (ours, other)
            ]
            assert torch.allclose(*scores, atol=1e-6)
