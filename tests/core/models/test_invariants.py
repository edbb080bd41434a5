"""What must not change an output, and what must (after the tests of pangolinn)."""

import random

import pytest
import torch

from tests.support import pad_batch, random_document, random_lengths, tiny_model

ENGINES = ("dense", "packed")
NO_CONTEXT = {"encoder_ctxlayers": 0, "decoder_ctxlayers": 0, "cross_ctxlayers": 0}
MODES = {"combined": {}, "group": NO_CONTEXT, "full": {"doc_mode": "full"}, "prenorm": {
    "encoder_normalize_before": True, "decoder_normalize_before": True},
    "global": {"context_attention": "global"}, "no language": {"no_language_locality": True},
    "no translation": {"no_translation_locality": True}}  # fmt: skip


def close(a, b):
    return torch.allclose(a, b, atol=2e-5, rtol=1e-4)


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@torch.no_grad()
@pytest.mark.parametrize("mode", MODES)
def test_output_does_not_depend_on_batch_or_padding(dictionary, make_pairs, engine, mode):
    model = tiny_model(dictionary, group_attention=engine, **MODES[mode])
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
def test_no_target_position_sees_the_future(dictionary, engine, mode):
    model = tiny_model(dictionary, group_attention=engine, **MODES[mode])
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
def test_encoder_context_comes_from_global_layers_only(dictionary, engine, layers):
    model = tiny_model(dictionary, group_attention=engine, **{**NO_CONTEXT, "encoder_ctxlayers": layers})
    for number in range(3):
        document, other, span = changed_sentence(dictionary, [4, 3, 5], number, number)
        before, after = (model.encoder(torch.tensor([x]))["encoder_out"][0][:, 0] for x in (document, other))
        outside = [i for i in range(len(document)) if i not in span]
        assert not close(before[list(span)], after[list(span)])
        if layers == 0:
            assert torch.equal(before[outside], after[outside])
        else:
            assert (before[outside] - after[outside]).abs().amax(dim=1).gt(1e-4).all()


@torch.no_grad()
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_decoder_context_comes_from_global_layers_only(dictionary, engine, layers):
    """Words of target sentence 1 reach target sentence 2 through global self-attention alone."""
    model = tiny_model(dictionary, group_attention=engine, **{**NO_CONTEXT, "decoder_ctxlayers": layers})
    source = torch.tensor([random_document(random.Random(9), dictionary, [3, 3, 3])])
    document, other, span = changed_sentence(dictionary, [4, 3, 5], 0, 4)
    before, after = (model(source, None, torch.tensor([x]))[0][0] for x in (document, other))
    later = before[span.stop + 1 :] - after[span.stop + 1 :]
    assert (later.abs().amax(dim=1).gt(1e-5).all()) if layers else later.eq(0).all()


@torch.no_grad()
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_cross_context_comes_from_global_layers_only(dictionary, engine, layers):
    """Words of source sentence 1 reach target sentence 2 through global cross-attention alone."""
    model = tiny_model(dictionary, group_attention=engine, **{**NO_CONTEXT, "cross_ctxlayers": layers})
    document, other, _ = changed_sentence(dictionary, [4, 3, 5], 0, 5)
    target = torch.tensor([random_document(random.Random(8), dictionary, [2, 3, 4])])
    before, after = (model(torch.tensor([x]), None, target)[0][0] for x in (document, other))
    later = before[4:] - after[4:]  # <s> w w </s> comes before
    assert not close(before[:4], after[:4])
    assert (later.abs().amax(dim=1).gt(1e-5).all()) if layers else later.eq(0).all()


@torch.no_grad()
def test_full_mode_sees_everything(dictionary, engine):
    model = tiny_model(dictionary, group_attention=engine, doc_mode="full")
    document, other, span = changed_sentence(dictionary, [4, 3, 5], 2, 6)
    before, after = (model.encoder(torch.tensor([x]))["encoder_out"][0][:, 0] for x in (document, other))
    assert (before - after).abs().amax(dim=1).gt(1e-4).all()
