"""The switches of the ablations: which attention stands where, and who reaches whom because of it."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.models.gtransformer.model import COMBINED, GLOBAL, GROUP, attention_kinds
from gtransformer.modules.dense import DensePattern, attention_weights
from gtransformer.modules.reach import by_sentence
from tests.core.models.test_invariants import NO_CONTEXT, changed_sentence, close
from tests.support import pad_batch, random_document, tiny_config, tiny_model

LOWER = [GROUP, GROUP, GROUP, GROUP]


@pytest.mark.parametrize(
    ("options", "encoder", "decoder", "cross"),
    [
        ({}, [COMBINED] * 2, [COMBINED] * 2, [COMBINED] * 2),
        ({"encoder_ctxlayers": 0, "cross_ctxlayers": 1}, [GROUP] * 2, [COMBINED] * 2, [GROUP, COMBINED]),
        ({"context_attention": "global"}, [GLOBAL] * 2, [GLOBAL] * 2, [GLOBAL] * 2),
        ({"context_attention": "global", "decoder_ctxlayers": 1}, [GLOBAL] * 2, [GROUP, GLOBAL], [GLOBAL] * 2),
    ],
)
def test_kinds_of_the_top_layers(options, encoder, decoder, cross):
    cfg = tiny_config(encoder_layers=6, decoder_layers=6, **options)
    assert [attention_kinds(cfg, part) for part in ("encoder", "decoder", "cross")] == [
        LOWER + encoder, LOWER + decoder, LOWER + cross
    ]  # fmt: skip


def test_kinds_without_locality():
    cfg = tiny_config(encoder_layers=4, no_language_locality=True, context_attention="global")
    assert attention_kinds(cfg, "encoder") == [GLOBAL] * 4 and attention_kinds(cfg, "decoder") == [GLOBAL] * 3
    assert attention_kinds(cfg, "cross") == [GROUP, GLOBAL, GLOBAL]
    cfg = tiny_config(no_translation_locality=True)
    assert attention_kinds(cfg, "cross") == [GLOBAL] * 3
    assert attention_kinds(cfg, "encoder") == attention_kinds(cfg, "decoder") == [GROUP, COMBINED, COMBINED]
    cfg = tiny_config(doc_mode="full")
    assert {kind for part in ("encoder", "decoder", "cross") for kind in attention_kinds(cfg, part)} == {GLOBAL}


@torch.no_grad()
def test_without_any_locality_it_is_a_transformer_over_the_document(dictionary, make_pairs):
    """Section 5.4, "Locality Bias": the same parameters, drawn alike, and the same logits as --doc-mode full."""
    pairs = make_pairs(1, [5, 1, 3])
    full = tiny_model(dictionary, doc_mode="full")
    without = tiny_model(dictionary, no_language_locality=True, no_translation_locality=True)
    assert full.state_dict().keys() == without.state_dict().keys()
    assert torch.equal(full(pairs.source, None, pairs.previous)[0], without(pairs.source, None, pairs.previous)[0])


@torch.no_grad()
@pytest.mark.parametrize("engine", ["dense", "packed"])
def test_words_reach_what_the_switch_lets_them(dictionary, engine):
    """No combined layer: a source word reaches other sentences through the encoder or through cross-attention alone."""
    source, other, span = changed_sentence(dictionary, [4, 3, 5], 0, 5)
    target = torch.tensor([random_document(random.Random(8), dictionary, [2, 3, 4])])
    for options, in_encoder in (({"no_language_locality": True}, True), ({"no_translation_locality": True}, False)):
        model = tiny_model(dictionary, group_attention=engine, **NO_CONTEXT, **options)
        before, after = (model.encoder(torch.tensor([x]))["encoder_out"][0][:, 0] for x in (source, other))
        outside = [i for i in range(len(source)) if i not in span]
        assert close(before[outside], after[outside]) is not in_encoder
        before, after = (model(torch.tensor([x]), None, target)[0][0] for x in (source, other))
        later = (before[4:] - after[4:]).abs().amax(dim=1)  # behind <s> w w </s>
        assert later.gt(1e-6).all()


@torch.no_grad()
@pytest.mark.parametrize("engine", ["dense", "packed"])
@pytest.mark.parametrize(("switch", "reaches"), [("no_language_locality", True), ("no_translation_locality", False)])
def test_target_words_reach_later_sentences_without_language_locality_only(dictionary, engine, switch, reaches):
    model = tiny_model(dictionary, group_attention=engine, **NO_CONTEXT, **{switch: True})
    source = torch.tensor([random_document(random.Random(9), dictionary, [3, 3, 3])])
    document, other, span = changed_sentence(dictionary, [4, 3, 5], 0, 4)
    before, after = (model(source, None, torch.tensor([x]))[0][0] for x in (document, other))
    later = (before[span.stop :] - after[span.stop :]).abs().amax(dim=1)
    assert later.gt(1e-6).all() if reaches else later.eq(0).all()


@torch.no_grad()
def test_global_attention_on_top_is_attention_over_the_document(dictionary):
    """One layer with global attention alone, written out with the unmasked weights of Eq. 5."""
    model = tiny_model(dictionary, encoder_layers=1, encoder_ctxlayers=1, context_attention="global").double()
    encoder, layer = model.encoder, model.encoder.layers[0]
    assert not hasattr(layer, "self_attn_global") and not hasattr(layer, "self_attn_gate")
    tokens = pad_batch([random_document(random.Random(3), dictionary, [2, 4])], 1, False)
    layout = encoder.layout(tokens)
    x = encoder.embed(layout.pack(tokens), layout.offset, layout.length)
    module = layer.self_attn_local
    q, k, v = (module.split(part(x))[None] for part in (module.q_proj, module.k_proj, module.v_proj))
    weights = attention_weights(q, k, torch.ones(1, len(x), len(x), dtype=torch.bool))
    mixed = torch.einsum("bhqk,bkhd->bqhd", weights, v)[0].flatten(1)
    attended = layer.self_attn_layer_norm(x + module.out_proj(mixed))
    expected = layer.residual(attended, layer.feed_forward, layer.final_layer_norm)
    assert torch.allclose(encoder(tokens)["encoder_out"][0][:, 0], expected, atol=1e-12)
    assert not DensePattern(by_sentence(layout, layout)).allowed.all()  # by group it would be another
