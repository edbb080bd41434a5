"""Sampling: words follow the model's distribution, and a translation depends on seed and source alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from gtransformer.search.beam import Sampling
from tests.core.search.conftest import Translator
from tests.support import tiny_model

SHAPES = [[3, 1], [2], [1, 4, 2]]


def sampler(dictionary, models=None, topk=0, seed=1, **options) -> Translator:
    options = {"max_len_a": 1.0, "max_len_b": 2, **options}
    models = models or [tiny_model(dictionary).double()]
    return Translator(dictionary, models, {"doc_seed": seed}, beam=1, sampling=True, sampling_topk=topk, **options)


def tokens(found) -> list[list[int]]:
    return [hypothesis["tokens"].tolist() for (hypothesis,) in found]


@pytest.mark.parametrize("topk", [0, 3])
def test_words_follow_the_distribution(topk):
    """Chi-square of 20,000 draws against probabilities that are computed here."""
    lprobs = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05, 0.0]).log()
    wanted = np.array([0.4, 0.3, 0.15, 0.1, 0.05] if topk == 0 else [0.4, 0.3, 0.15])
    wanted /= wanted.sum()
    numbers = torch.from_numpy(np.random.default_rng(3).random(20_000))
    values, index = Sampling(topk, 1).draw(lprobs.expand(20_000, -1), numbers)
    assert torch.equal(values.squeeze(1), lprobs[index.squeeze(1)])
    counts = np.bincount(index.squeeze(1).numpy(), minlength=6)
    assert counts[len(wanted) :].sum() == 0
    expected = 20_000 * wanted
    assert ((counts[: len(wanted)] - expected) ** 2 / expected).sum() < 18.5  # 4 degrees of freedom: one in a thousand


@torch.no_grad()
def test_a_translation_depends_on_seed_and_source_alone(dictionary, documents):
    """Not on what is in the batch, its order or padding."""
    model = tiny_model(dictionary).double()
    batch = documents(random.Random(2), SHAPES)
    found = tokens(sampler(dictionary, [model])(batch))
    assert tokens(sampler(dictionary, [model])(batch[::-1])) == found[::-1]
    assert [tokens(sampler(dictionary, [model])([one]))[0] for one in batch] == found
    assert tokens(sampler(dictionary, [model], seed=2)(batch)) != found


@torch.no_grad()
def test_sentences_and_limits_are_kept_and_scores_are_the_models(dictionary, documents):
    model = tiny_model(dictionary).double()
    batch = documents(random.Random(3), SHAPES)
    translate = sampler(dictionary, [model], max_len_b=1)
    for source, shape, (hypothesis,) in zip(batch, SHAPES, translate(batch), strict=True):
        sentences = translate.sentences(hypothesis)
        assert len(sentences) == len(shape)
        assert all(1 <= len(words) <= most + 1 for words, most in zip(sentences, shape, strict=True))
        target = hypothesis["tokens"]
        previous = torch.cat([target.new_tensor([dictionary.bos()]), target[:-1]])
        net_input = {"src_tokens": torch.tensor([source]), "src_lengths": torch.tensor([len(source)])}
        logits, _ = model(**net_input, prev_output_tokens=previous.unsqueeze(0))
        lprobs = logits[0].log_softmax(1).gather(1, target.unsqueeze(1)).squeeze(1)
        chosen = target.ne(dictionary.bos()) & target.ne(dictionary.index("[de]"))
        expected = lprobs.where(chosen, torch.zeros(()).double())
        torch.testing.assert_close(hypothesis["positional_scores"].double(), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_fairseqs_option_draws_the_same_words(dictionary, documents):
    """--sampling --sampling-topk K; the seed is --seed, here the task's."""
    model, batch = tiny_model(dictionary).double(), documents(random.Random(5), SHAPES)
    options = {"beam": 1, "max_len_a": 1.0, "max_len_b": 2}
    translate = Translator(dictionary, [model], **options, sampling=True, sampling_topk=3)
    expected = sampler(dictionary, [model], topk=3, seed=translate.task.cfg.doc_seed)(batch)
    assert tokens(translate(batch)) == tokens(expected)
