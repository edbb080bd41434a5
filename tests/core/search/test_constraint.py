"""What holds for every translation: sentence count, limits, free tokens, independence of the batch."""

import random

import pytest
import torch

from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.support import random_lengths, tiny_model

pytestmark = pytest.mark.slow

SEARCHES = {
    "beam": {"beam": 4},
    "wide beam": {"beam": 12},
    "top k": {"beam": 1, "sampling": True, "sampling_topk": 5},
}
SHAPES = [[3, 1, 4, 2, 5], [2], [1, 1, 1], [6, 0, 2]]


@torch.no_grad()
@pytest.mark.parametrize("name", SEARCHES)
def test_as_many_sentences_as_the_source_within_their_limits(dictionary, documents, name):
    draw, model = random.Random(2), tiny_model(dictionary)
    for a, b, min_len in [(1.2, 10, 1), (0.5, 3, 2), (0, 1, 0)]:
        translate = Translator(dictionary, [model], **SEARCHES[name], max_len_a=a, max_len_b=b, min_len=min_len)
        for shape, hypotheses in zip(SHAPES, translate(documents(draw, SHAPES)), strict=True):
            assert 1 <= len(hypotheses) <= SEARCHES[name]["beam"]
            scores = [hypothesis["score"].item() for hypothesis in hypotheses]
            assert scores == sorted(scores, reverse=True)
            for hypothesis in hypotheses:
                words = translate.sentences(hypothesis)
                assert len(words) == len(shape)
                for sentence, source_words in zip(words, shape, strict=True):
                    limit = int(a * source_words + b)
                    assert min(min_len, limit) <= len(sentence) <= limit


@torch.no_grad()
@pytest.mark.parametrize("doc_mode", ["partial", "full"])
@pytest.mark.parametrize("beam", [1, 4])
def test_results_do_not_depend_on_batch_composition(dictionary, documents, beam, doc_mode):
    draw = random.Random(4)
    model = tiny_model(dictionary, 2, doc_mode=doc_mode)
    task_options = {"doc_mode": doc_mode, "sentence_rule": "on"}
    translate = Translator(dictionary, [model], task_options, beam=beam, max_len_a=1.2, max_len_b=4)
    batch = documents(draw, [random_lengths(draw, n, 5) for n in (1, 9, 3, 3, 5)])
    together = translate(batch)
    for order in ([4, 2, 0], [1], [3, 1], [0], [2], [4]):
        for number, hypotheses in zip(order, translate([batch[i] for i in order]), strict=True):
            assert len(hypotheses) == len(together[number]) == beam
            for found, expected in zip(hypotheses, together[number], strict=True):
                assert torch.equal(found["tokens"], expected["tokens"])
                assert found["score"].item() == pytest.approx(expected["score"].item(), rel=1e-4)


@torch.no_grad()
def test_forced_tokens_are_free_and_a_forced_end_is_not(dictionary, documents):
    """<s> and the final language symbol cost exactly 0; </s> at the limit has the model's own score."""
    model = tiny_model(dictionary, 3).double()
    (document,) = documents(random.Random(5), [[2, 1, 2]])
    translate = Translator(dictionary, [model], beam=3, max_len_a=0, max_len_b=2, min_len=2, lenpen=1.0)
    for hypothesis in translate([document])[0]:
        tokens = hypothesis["tokens"].tolist()
        prefix = torch.tensor([[dictionary.bos(), *tokens[:-1]]])
        expected = model(torch.tensor([document]), None, prefix)[0][0].log_softmax(dim=-1)
        costs = hypothesis["positional_scores"].tolist()
        for position, (token, cost) in enumerate(zip(tokens, costs, strict=True)):
            if token == dictionary.bos() or token == dictionary.index("[de]"):
                assert cost == 0.0
            else:  # words, and </s>, here always forced, since both limits are 2
                assert cost == pytest.approx(expected[position, token].item(), abs=1e-5)
                assert cost < -1e-3
        assert hypothesis["score"].item() == pytest.approx(sum(costs) / len(tokens), rel=1e-6)


@torch.no_grad()
def test_ensemble_averages_probabilities(dictionary, documents):
    batch = documents(random.Random(7), [[2, 3], [1]])
    models = [tiny_model(dictionary, seed).double() for seed in (5, 6)]
    translate = Translator(dictionary, models, beam=3, max_len_a=1, max_len_b=2)
    for document, hypotheses in zip(batch, translate(batch), strict=True):
        tokens = hypotheses[0]["tokens"].tolist()
        prefix = torch.tensor([[dictionary.bos(), *tokens[:-1]]])
        both = [model(torch.tensor([document]), None, prefix)[0][0].softmax(dim=-1) for model in models]
        expected = (sum(both) / 2).log()
        for position, token in enumerate(tokens):
            if token not in (dictionary.bos(), dictionary.index("[de]")):
                assert hypotheses[0]["positional_scores"][position].item() == pytest.approx(
                    expected[position, token].item(), abs=1e-5
                )
    same = Translator(dictionary, [models[0]] * 2, beam=3, max_len_a=1, max_len_b=2)(batch)
    single = Translator(dictionary, models[:1], beam=3, max_len_a=1, max_len_b=2)(batch)
    for one, other in zip(same, single, strict=True):
        assert torch.equal(one[0]["tokens"], other[0]["tokens"])


@pytest.mark.parametrize("name", SYSTEMS)
@torch.no_grad()
def test_the_sentence_rule_is_an_option(dictionary, documents, name):
    """On and off for every system, whatever its mode; auto is on for those that are not --doc-mode full."""
    batch, found = documents(random.Random(9), [[2, 3, 1], [4], [1, 1, 1, 1]]), {}
    model = SYSTEMS[name](dictionary)
    for rule in ("auto", "on", "off"):
        translate = Translator(dictionary, [model], {"sentence_rule": rule}, beam=3, max_len_a=1, max_len_b=3)
        assert (translate.generator.free) == (rule == "off")
        found[rule] = [best["tokens"].tolist() for best, *_ in translate(batch)]
        assert all(tokens[-1] == dictionary.index("[de]") for tokens in found[rule])
    assert found["auto"] == found["on"] and found["on"] != found["off"]
    assert [tokens.count(dictionary.eos()) for tokens in found["on"]] == [3, 1, 4]
    assert [tokens.count(dictionary.eos()) for tokens in found["off"]] != [3, 1, 4]


def test_an_ensemble_keeps_to_the_sentences_if_a_member_needs_it(dictionary):
    """In whatever order its members are named."""
    models = {mode: tiny_model(dictionary, doc_mode=mode) for mode in ("partial", "full")}
    for names in (("partial", "full"), ("full", "partial"), ("partial",)):
        assert Translator(dictionary, [models[name] for name in names]).generator.free is False
    assert Translator(dictionary, [models["full"]] * 2).generator.free
