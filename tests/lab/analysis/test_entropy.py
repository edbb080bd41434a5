"""Attention entropy against distributions by hand, its bounds, and weights written out without the engines."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.lab.analysis.entropy import EntropyMeter, entropy_bits, query_entropies
from gtransformer.lab.analysis.watching import AttentionSite
from gtransformer.plugin.entropy import measured
from tests.support import (
    fairseqs_model,
    make_local_or_global,
    pad_batch,
    ragged,
    random_document,
    tiny_model,
    with_engine,
)

# Group tags of three documents, the last with a sentence that has no counterpart.
SOURCE = [[1, 1, 1, 2, 2, 3, 3, 3, 3], [1, 1, 2], [1, 1, 1, 1]]
TARGET = [[1, 1, 2, 2, 2, 3, 3], [1, 2, 2], [1, 1, 2, 2]]
SENTENCES = [[3, 1, 4], [2, 2], [5]]  # words; a sentence has two tokens more


def uniform(pattern) -> torch.Tensor:
    """Keys that are all alike: every query attends evenly to what it may see."""
    queries, keys = pattern.reach.queries.total, pattern.reach.keys.total
    return query_entropies(torch.randn(queries, 2, 4), torch.ones(keys, 2, 4), pattern)


def batch(dictionary, model, seed: int = 3) -> dict[str, torch.Tensor]:
    """Three documents, padded on both sides, as the model takes them."""
    draw = random.Random(seed)
    source = [random_document(draw, dictionary, lengths) for lengths in SENTENCES]
    target = [random_document(draw, dictionary, lengths) for lengths in SENTENCES]
    pad = dictionary.pad()
    tokens = {"src_tokens": pad_batch(source, pad, True), "prev_output_tokens": pad_batch(target, pad, False)}
    return {**tokens, "src_lengths": None}


def test_distributions_by_hand():
    weights = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0, 1, 0, 0], [0.5, 0.25, 0.125, 0.125], [0, 0, 0, 0]])
    assert entropy_bits(weights).tolist() == pytest.approx([2, 0, 1.75, 0])
    exact = -(0.9 * math.log2(0.9) + 0.1 * math.log2(0.1))
    assert entropy_bits(torch.tensor([0.9, 0.1], dtype=torch.float64)).item() == pytest.approx(exact, abs=1e-15)


@pytest.mark.parametrize("engine", ["packed", "dense"])
def test_flat_attention_over_n_keys_has_log2_n_bits(engine):
    source, target = ragged(SOURCE), ragged(TARGET)
    bits, keys = uniform(make_local_or_global(engine, source, source, local=True, causal=False))
    own = [row.count(tag) for row in SOURCE for tag in row]
    assert keys.tolist() == own
    assert bits.squeeze(1).tolist() == pytest.approx([math.log2(n) for n in own], abs=1e-5)
    bits, keys = uniform(make_local_or_global(engine, target, target, local=False, causal=True))
    before = [position + 1 for row in TARGET for position in range(len(row))]
    assert keys.tolist() == before
    assert bits.squeeze(1).tolist() == pytest.approx([math.log2(n) for n in before], abs=1e-5)


def test_mean_of_heads_and_each_head():
    """Two heads that look at one key each: 0 bits each, 1 bit for their mean."""
    layout = ragged([[1, 1]])
    keys = torch.tensor([[[200.0], [0.0]], [[0.0], [200.0]]])
    pattern = make_local_or_global("packed", layout, layout, False, False)
    mean, _ = query_entropies(torch.ones(2, 2, 1), keys, pattern)
    assert mean.shape == (2, 1) and torch.allclose(mean, torch.ones(2, 1))
    each, _ = query_entropies(torch.ones(2, 2, 1), keys, pattern, per_head=True)
    assert each.shape == (2, 2) and each.abs().max() < 1e-6


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("limit", [40, 1 << 24])
@pytest.mark.parametrize(
    ("local", "causal", "cross"),
    [(True, False, False), (True, True, False), (False, False, False), (False, True, False), (True, False, True),
     (False, False, True)],
)  # fmt: skip
def test_packed_equals_dense_whatever_the_block(monkeypatch, relative, per_head, limit, local, causal, cross):
    monkeypatch.setattr("gtransformer.lab.analysis.watching.WEIGHTS_AT_ONCE", limit)
    source, target = ragged(SOURCE), ragged(TARGET)
    queries, keys = (target if causal or cross else source), (target if causal else source)
    q, k = torch.randn(queries.total, 2, 4, dtype=torch.float64), torch.randn(keys.total, 2, 4, dtype=torch.float64)
    table = torch.randn(2 * 3 + 1, 4, dtype=torch.float64) if relative else None
    found = [
        query_entropies(q, k, make_local_or_global(e, queries, keys, local, causal), per_head, table)
        for e in ("packed", "dense")
    ]
    assert torch.equal(found[0][1], found[1][1])
    assert found[0][0].shape == (queries.total, 2 if per_head else 1)
    assert torch.allclose(found[0][0], found[1][0], rtol=0, atol=1e-12)


def measure(model, sample, per_head: bool = False) -> EntropyMeter:
    meter = EntropyMeter(per_head)
    with torch.no_grad(), meter.on(model):
        model(**sample)
    return meter


@pytest.mark.parametrize("mode", ["partial", "full"])
def test_both_engines_measure_the_same(dictionary, mode):
    model = tiny_model(dictionary, doc_mode=mode).double()
    sample = batch(dictionary, model)
    packed = measure(model, sample, per_head=True).to_json()
    dense = measure(with_engine(model, "dense"), sample, per_head=True).to_json()
    assert packed == dense
    kinds = {(one["part"], one["reach"], one["layer"]) for one in packed}
    everywhere = {(part, layer) for part in ("encoder", "decoder", "cross") for layer in (1, 2, 3)}
    if mode == "full":
        assert kinds == {(part, "global", layer) for part, layer in everywhere}
    else:
        assert kinds == {(p, "group", n) for p, n in everywhere} | {(p, "global", n) for p, n in everywhere if n > 1}


def test_cross_attention_written_out(dictionary):
    """One decoder layer, one document after the other: weights of Eq. 4 and 6 by loops, without masks or engines."""
    model = tiny_model(dictionary, decoder_layers=1, decoder_ctxlayers=1, cross_ctxlayers=1)
    sample = batch(dictionary, model)
    kept = {}
    layer = model.decoder.layers[0]
    for name in ("local", "global"):
        module = getattr(layer, f"encoder_attn_{name}")
        module.register_forward_hook(lambda module, inputs, output, name=name: kept.__setitem__(name, (module, inputs)))
    meter = measure(model, sample)
    for name, reach in (("local", "group"), ("global", "global")):
        module, (x, memory, pattern) = kept[name]
        sides = module.q_proj(x), module.k_proj(memory)
        q, k = (side.unflatten(-1, (module.heads, -1)).double() for side in sides)
        bits, flat = [], []
        queries, keys = pattern.reach.queries, pattern.reach.keys
        for i in range(len(q)):
            tag = queries.tag[i]
            seen = [
                j for j in range(len(k)) if keys.doc[j] == queries.doc[i] and (reach == "global" or keys.tag[j] == tag)
            ]
            weights = torch.zeros(len(seen), dtype=torch.float64)
            for head in range(2):
                scores = torch.stack([q[i, head] @ k[j, head] / math.sqrt(8) for j in seen])
                weights += torch.softmax(scores, dim=0) / 2
            bits.append(-sum(p * math.log2(p) for p in weights.tolist()))
            flat.append(math.log2(len(seen)))
        tally = meter.tallies[AttentionSite("cross", reach, 1)]
        assert tally.queries == len(bits)
        assert tally.mean()[0] == pytest.approx(sum(bits) / len(bits), abs=1e-5)
        assert tally.flat / tally.queries == pytest.approx(sum(flat) / len(flat), abs=1e-9)


def test_bounds_and_what_is_left_out(dictionary):
    """A sentence of n tokens has at most log2 n bits of group attention; padding does not count."""
    model = tiny_model(dictionary)
    meter = measure(model, batch(dictionary, model))
    lengths = [words + 2 for row in SENTENCES for words in row]
    tokens, most = sum(lengths), sum(n * math.log2(n) for n in lengths)
    for place, tally in meter.tallies.items():
        assert tally.queries == tokens, place
        assert 0 < tally.bits.item() <= tally.flat * (1 + 1e-6)
        if place.reach == "group" and place.part != "decoder":  # the decoder does not see what follows
            assert tally.flat == pytest.approx(most)


def test_batches_add_up_to_the_mean_over_tokens(dictionary):
    model = tiny_model(dictionary)
    first, second = batch(dictionary, model, 3), batch(dictionary, model, 4)
    second = {key: value if value is None else value[1:] for key, value in second.items()}
    together, parts = EntropyMeter(), [measure(model, first), measure(model, second)]
    with torch.no_grad(), together.on(model):
        model(**first)
        model(**second)
    for place, tally in together.tallies.items():
        sums = [part.tallies[place] for part in parts]
        assert tally.queries == sum(one.queries for one in sums)
        assert tally.bits.item() == pytest.approx(sum(one.bits.item() for one in sums))


def test_autocast_does_not_change_the_precision_of_the_measure(dictionary):
    """Under --autocast the entropy of the same states is worked out in float32."""
    model = tiny_model(dictionary, encoder_layers=1, encoder_ctxlayers=1)
    sample, place = batch(dictionary, model), AttentionSite("encoder", "global", 1)
    exact = measure(model, sample).tallies[place].bits
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = measure(model, sample).tallies[place].bits
    assert torch.allclose(rounded, exact, rtol=1e-6)


@pytest.mark.parametrize("kind", ["Linear", "TransformerModelBase"])
def test_other_models_are_refused(dictionary, kind):
    model = nn.Linear(1, 1) if kind == "Linear" else fairseqs_model(dictionary)
    with pytest.raises(UserError, match=f"{kind}: attention entropy is measured for G-Transformer models only"):
        with EntropyMeter().on(model):
            pass


@pytest.mark.parametrize("mode", ["partial", "full"])
def test_a_validation_measures_the_same(dictionary, mode):
    model = tiny_model(dictionary, doc_mode=mode)
    sample = batch(dictionary, model)
    expected = measure(model, sample).tallies
    with torch.no_grad(), measured(model) as found:
        model(**sample)
    for name in {f"{site.part}_{site.reach}" for site in expected}:
        own = [tally for site, tally in expected.items() if f"{site.part}_{site.reach}" == name]
        assert found[name] == pytest.approx(sum(one.bits.item() for one in own), rel=1e-5)
        assert found[f"{name}_flat"] == pytest.approx(sum(one.flat for one in own), rel=1e-9)
        assert found[f"{name}_queries"] == sum(one.queries for one in own)
