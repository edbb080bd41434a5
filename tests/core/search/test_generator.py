"""Generators can be used again and at the same time: no batch leaves a trace in them; and which models they take."""

import random

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.search.beam import BeamSearch, decodes_stepwise
from tests.core.search.conftest import Translator
from tests.core.search.test_beam import assert_same
from tests.support import fairseqs_model, tiny_model

pytestmark = pytest.mark.slow

WAYS = {
    "ours": {},
    "fairseq's loop": {"no_repeat_ngram_size": 4},
    "diverse beams": {"doc_mode": "full", "diverse_beam_groups": 2},
    "full mode": {"doc_mode": "full"},
}


def translator(dictionary, way: str) -> Translator:
    options = dict(WAYS[way])
    mode = {"doc_mode": options.pop("doc_mode", "partial")}
    model = tiny_model(dictionary, 1, **mode).double()
    return Translator(dictionary, [model], mode, beam=4, max_len_a=1.2, max_len_b=2, **options)


@torch.no_grad()
@pytest.mark.parametrize("way", WAYS)
def test_a_batch_leaves_no_trace(dictionary, documents, way):
    draw = random.Random(21)
    batches = [documents(draw, shapes) for shapes in ([[3, 1, 4], [2]], [[6, 5, 4, 3, 2]], [[1]])]
    translate = translator(dictionary, way)
    assert translate.generator.fast is (way == "ours")
    found = [translate(batch) for batch in batches]
    for batch, expected in reversed(list(zip(batches, found, strict=True))):  # in another order
        assert_same(translate(batch), expected)
    for batch, expected in zip(batches, found, strict=True):  # each by a generator of its own
        assert_same(translator(dictionary, way)(batch), expected)


def test_diverse_beams_under_the_rule(dictionary):
    """They would charge each forced <s>."""
    with pytest.raises(UserError, match="--diverse-beam-groups"):
        Translator(dictionary, [tiny_model(dictionary)], beam=4, diverse_beam_groups=2)


@torch.no_grad()
def test_the_numbers_of_instances_change_nothing(dictionary, documents):
    """In a corpus an instance has any number; fairseq's diverse beams look it up in the batch."""
    translate = translator(dictionary, "diverse beams")
    batch = documents(random.Random(24), [[3, 1], [2], [1, 4]])
    expected, step = translate(batch), translate.task.inference_step
    translate.task.inference_step = lambda generator, models, sample, **more: step(
        generator, models, {**sample, "id": torch.tensor([17, 3, 99])}, **more
    )
    assert_same(translate(batch), expected)


@torch.no_grad()
@pytest.mark.parametrize("way", WAYS)
def test_two_batches_interleaved(dictionary, documents, monkeypatch, way):
    """In the middle of one batch the same generator translates another, of other lengths and sentences."""
    draw = random.Random(22)
    long, short = documents(draw, [[6, 5, 4], [3, 3]]), documents(draw, [[1], [2, 1], [1, 1, 1, 1]])
    translate = translator(dictionary, way)
    expected = [translate(batch) for batch in (long, short)]
    calls, between = [], []

    def interrupt():
        calls.append(1)
        if len(calls) == 5:
            between.append(translate(short))

    if way == "ours":
        step = BeamSearch._step
        monkeypatch.setattr(BeamSearch, "_step", lambda self: (interrupt(), step(self))[1])
    else:
        decoder = translate.models[0].decoder
        forward = decoder.forward
        monkeypatch.setattr(decoder, "forward", lambda *a, **b: (interrupt(), forward(*a, **b))[1])
    assert_same(translate(long), expected[0])
    assert len(calls) > 5
    assert_same(between[0], expected[1])


@torch.no_grad()
def test_another_model_goes_through_fairseqs_loop_under_the_same_rule(dictionary, documents):
    model = fairseqs_model(dictionary)
    assert not decodes_stepwise(model) and decodes_stepwise(tiny_model(dictionary))
    translate = Translator(dictionary, [model], beam=3, max_len_a=1, max_len_b=2)
    assert not translate.generator.fast
    shapes = [[3, 1], [2, 2, 2]]
    for shape, hypotheses in zip(shapes, translate(documents(random.Random(23), shapes)), strict=True):
        assert len(hypotheses) == 3
        for hypothesis in hypotheses:
            words = translate.sentences(hypothesis)
            assert all(len(sentence) <= limit + 2 for sentence, limit in zip(words, shape, strict=True))
    both = Translator(dictionary, [tiny_model(dictionary), model], beam=3)
    assert not both.generator.fast
