"""What must not change an output, and what must (after the tests of pangolinn)."""

import random

import pytest
import torch

from tests.support import encoded, pad_batch, random_document, random_lengths, tiny_model

NO_CONTEXT = {"encoder_ctxlayers": 0, "decoder_ctxlayers": 0, "cross_ctxlayers": 0}
MODES = {"combined": {}, "group": NO_CONTEXT, "full": {"doc_mode": "full"}, "prenorm": {
    "encoder_normalize_before": True, "decoder_normalize_before": True},
    "global": {"context_attention": "global"}, "no language": {"no_language_locality": True},
    "no translation": {"no_translation_locality": True}}  # fmt: skip


def close(a, b):
    return torch.allclose(a, b, atol=2e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("mode", MODES)
def test_output_does_not_depend_on_batch_or_padding(dictionary, make_pairs, mode):
    model = tiny_model(dictionary, **MODES[mode])
    pairs = make_pairs(1, [7, 1, 3, 12])
    pad = dictionary.pad()
    together, _ = model(pairs.source, None, pairs.previous)
    for row, (source, previous) in enumerate(pairs.documents):
        expected = together[row, : len(previous)]
        for left_source, left_target, extra in [(True, False, 0), (False, True, 3), (True, True, 5)]:
            alone, _ = model(
                pad_batch([source], pad, left_source, extra), None, pad_batch([previous], pad, left_target, extra)
            )
            real = pad_batch([previous], pad, left_target, extra)[0].ne(pad)
            assert close(alone[0][real], expected)


@torch.no_grad()
@pytest.mark.parametrize("mode", MODES)
def test_no_target_position_sees_the_future(dictionary, mode):
    model = tiny_model(dictionary, **MODES[mode])
    draw = random.Random(2)
    source = pad_batch([random_document(draw, dictionary, [4, 3, 5])], 1, True)
    target = random_document(draw, dictionary, [3, 4, 4])
    logits, _ = model(source, None, torch.tensor([target]))
    for cut in range(1, len(target)):
        other = target[:cut] + random_document(draw, dictionary, random_lengths(draw, 3, 4))
        changed, _ = model(source, None, torch.tensor([other]))
        assert (changed[0, :cut] - logits[0, :cut]).abs().max() < 2e-6 * logits.abs().max()
        assert not close(changed[0, cut : cut + 1], logits[0, cut : cut + 1]) or other[cut] == target[cut]


def changed_sentence(dictionary, lengths, number, seed):
    """A document, and the same with the words of one sentence exchanged for as many others."""
    draw = random.Random(seed)
    document = random_document(draw, dictionary, lengths)
    other = list(document)
    start = sum(n + 2 for n in lengths[:number]) + 1
    for position in range(start, start + lengths[number]):
        other[position] = document[position] + 1 if dictionary[document[position] + 1].startswith("w") else 4
    return document, other, range(start - 1, start + lengths[number] + 1)


@torch.no_grad()
@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_context_comes_from_global_layers_only(dictionary, part, layers):
    """Words of sentence 1 reach states or logits of others through global attention of that part alone."""
    model = tiny_model(dictionary, **{**NO_CONTEXT, f"{part}_ctxlayers": layers})
    document, other, span = changed_sentence(dictionary, [4, 3, 5], 0, 4)
    still = torch.tensor([random_document(random.Random(9), dictionary, [4, 3, 3])])
    changed = [torch.tensor([one]) for one in (document, other)]
    if part == "encoder":
        before, after = (encoded(model, one)[0] for one in changed)
    elif part == "decoder":
        before, after = (model(still, None, one)[0][0] for one in changed)
    else:
        before, after = (model(one, None, still)[0][0] for one in changed)
    difference = (before - after).abs().amax(dim=1)
    assert difference[1 : span.stop].gt(1e-4).all()
    later = difference[span.stop + 1 :]
    assert later.gt(1e-5).all() if layers else later.eq(0).all()


@torch.no_grad()
def test_without_any_locality_it_is_a_transformer_over_the_document(dictionary, make_pairs):
    """Section 5.4, "Locality Bias": the same parameters, drawn alike, and the same logits as --doc-mode full."""
    pairs = make_pairs(1, [5, 1, 3])
    full = tiny_model(dictionary, doc_mode="full")
    everywhere = {f"{part}_ctxlayers": 3 for part in ("encoder", "decoder", "cross")}
    for options in (
        {"no_language_locality": True, "no_translation_locality": True},
        {"context_attention": "global", **everywhere},  # Table 6, on all layers
    ):
        without = tiny_model(dictionary, **options)
        assert full.state_dict().keys() == without.state_dict().keys()
        assert torch.equal(full(pairs.source, None, pairs.previous)[0], without(pairs.source, None, pairs.previous)[0])


@torch.no_grad()
def test_words_reach_what_the_switch_lets_them(dictionary):
    """No combined layer: a source word reaches other sentences through the encoder or through cross-attention alone."""
    source, other, span = changed_sentence(dictionary, [4, 3, 5], 0, 5)
    target = torch.tensor([random_document(random.Random(8), dictionary, [2, 3, 4])])
    for options, in_encoder in (({"no_language_locality": True}, True), ({"no_translation_locality": True}, False)):
        model = tiny_model(dictionary, **NO_CONTEXT, **options)
        before, after = (encoded(model, torch.tensor([x]))[0] for x in (source, other))
        outside = [i for i in range(len(source)) if i not in span]
        assert close(before[outside], after[outside]) is not in_encoder
        before, after = (model(torch.tensor([x]), None, target)[0][0] for x in (source, other))
        later = (before[4:] - after[4:]).abs().amax(dim=1)  # behind <s> w w </s>
        assert later.gt(1e-6).all()
