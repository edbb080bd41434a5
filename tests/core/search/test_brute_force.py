"""Search against enumeration and against a plain loop, both over the full forward pass in float64."""

import itertools
import random

import pytest
import torch

from tests.core.search.conftest import Translator
from tests.support import random_document, tiny_model

pytestmark = pytest.mark.slow

MODELS = {"combined": {}, "group": {"encoder_ctxlayers": 0, "decoder_ctxlayers": 0, "cross_ctxlayers": 0}}


def word_indices(dictionary):
    """What may stand inside a sentence: words and <unk>."""
    return [i for i in range(len(dictionary)) if dictionary[i].startswith("w") or i == dictionary.unk()]


def log_probabilities(model, source, prefixes):
    """(prefixes, length, vocabulary), all prefixes equally long."""
    logits, _ = model(source.expand(len(prefixes), -1), None, torch.tensor(prefixes))
    return logits.log_softmax(dim=-1)


def enumerate_hypotheses(dictionary, sentences, limit, min_len):
    """Every document that the constraint allows, as the decoder reads it: without the language symbol at its end."""
    words = word_indices(dictionary)
    one = [
        [dictionary.bos(), *body, dictionary.eos()]
        for length in range(min_len, limit + 1)
        for body in itertools.product(words, repeat=length)
    ]
    return [sum(parts, []) for parts in itertools.product(one, repeat=sentences)]


def best_by_enumeration(model, dictionary, document, sentences, limit, min_len, lenpen):
    """(tokens, normalised score) of the best and the second best: <s> and the language symbol cost nothing."""
    language = dictionary.index("[de]")
    source = torch.tensor([document])
    scored = []
    hypotheses = enumerate_hypotheses(dictionary, sentences, limit, min_len)
    for _, same_length in itertools.groupby(sorted(hypotheses, key=len), key=len):
        group = list(same_length)
        steps = log_probabilities(model, source, group)
        for row, read in zip(steps, group, strict=True):
            tokens = [*read[1:], language]
            costs = [float(row[i, t]) for i, t in enumerate(read[1:]) if t != dictionary.bos()]
            scored.append((sum(costs) / len(tokens) ** lenpen, tokens))
    return sorted(scored, reverse=True)


@torch.no_grad()
@pytest.mark.parametrize("lenpen", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("mode", MODELS)
@pytest.mark.parametrize("min_len", [0, 1])
def test_wide_beam_finds_the_best_of_all(two_words, mode, lenpen, min_len):
    for seed in range(2):
        model = tiny_model(two_words, seed, **MODELS[mode]).double()
        document = random_document(random.Random(seed), two_words, [2, 1])
        expected = best_by_enumeration(model, two_words, document, 2, 2, min_len, lenpen)
        translate = Translator(two_words, [model], beam=170, max_len_a=0, max_len_b=2, min_len=min_len, lenpen=lenpen)
        ((*found,),) = translate([document])
        assert len(found) == len(expected)  # 144 or 169 hypotheses, every one of them
        for hypothesis, (score, tokens) in list(zip(found, expected, strict=True))[:5]:
            assert hypothesis["tokens"].tolist() == tokens
            assert hypothesis["score"].item() == pytest.approx(score, rel=1e-5)


@torch.no_grad()
def test_fewer_hypotheses_than_beams_in_a_batch(two_words):
    """A document that allows fewer hypotheses than the beam is wide is done when they are all there."""
    model = tiny_model(two_words).double()
    draw = random.Random(4)
    short, long = (random_document(draw, two_words, lengths) for lengths in ([1], [3, 3, 2]))
    translate = Translator(two_words, [model], beam=8, max_len_a=1, max_len_b=0, min_len=1)
    alone, together = translate([short])[0], translate([short, long])[0]
    assert len(alone) == len(together) == 3  # w0, w1, <unk>
    for a, b in zip(alone, together, strict=True):
        assert torch.equal(a["tokens"], b["tokens"])
    empty = random_document(draw, two_words, [0])
    (only,), others = translate([empty, long])
    assert only["tokens"].tolist() == [two_words.eos(), two_words.index("[de]")]
    assert len(others) == 8


def greedy(model, dictionary, document, limits, min_len):
    """The best next token again and again, by the rules of the constraint written out."""
    bos, eos, language = dictionary.bos(), dictionary.eos(), dictionary.index("[de]")
    source, prefix, total = torch.tensor([document]), [], 0.0
    for limit in limits:
        prefix.append(bos)
        for length in itertools.count():
            scores = log_probabilities(model, source, [prefix])[0, -1]
            allowed = [eos] if length == limit else word_indices(dictionary)
            if min_len <= length < limit:
                allowed.append(eos)
            token = max(allowed, key=lambda index: scores[index].item())
            total += scores[token].item()
            prefix.append(token)
            if token == eos:
                break
    return [*prefix[1:], language], total


@torch.no_grad()
@pytest.mark.parametrize("min_len", [1, 3])
@pytest.mark.parametrize("options", [*MODELS.values(), {"doc_mode": "full"}], ids=[*MODELS, "full"])
def test_beam_1_is_greedy(dictionary, documents, options, min_len):
    draw = random.Random(1)
    for seed in range(4):
        model = tiny_model(dictionary, seed, **options).double()
        shapes = [[3, 1, 4], [2], [5, 2]]
        batch = documents(draw, shapes)
        task_options = {"doc_mode": options.get("doc_mode", "partial"), "sentence_rule": "on"}
        translate = Translator(dictionary, [model], task_options, beam=1, max_len_a=1.2, max_len_b=2, min_len=min_len)
        for document, shape, (found,) in zip(batch, shapes, translate(batch), strict=True):
            tokens, total = greedy(model, dictionary, document, [int(1.2 * n + 2) for n in shape], min_len)
            assert found["tokens"].tolist() == tokens
            assert found["score"].item() == pytest.approx(total / len(tokens), rel=1e-5)
