"""Sampling: words follow the model's distribution; their scores are the model's."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gtransformer.models.common.decoding.plan import Plan
from gtransformer.search.beam import Scoring, best_words
from gtransformer.search.rules import FreeText
from tests.core.search.conftest import Translator
from tests.core.search.written_out import log_probabilities
from tests.support import tiny_model

SHAPES = [[3, 1], [2], [1, 4, 2]]


def sampler(dictionary, models, seed=1, **options) -> Translator:
    options = {"max_len_a": 1.0, "max_len_b": 2, "beam": 1, **options}
    return Translator(dictionary, models, {"doc_seed": seed}, sampling=True, **options)


@pytest.mark.parametrize("topk", [0, 3])
def test_words_follow_the_distribution(topk):
    """Chi-square of 20,000 draws against probabilities that are computed here."""
    lprobs = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05, 0.0]).log()
    wanted = np.array([0.4, 0.3, 0.15, 0.1, 0.05] if topk == 0 else [0.4, 0.3, 0.15])
    wanted /= wanted.sum()
    state = SimpleNamespace(vocabulary=6, logits=torch.clone, plan=Plan(lprobs.device, False))
    rule, nowhere = FreeText(0, 1, 2, np.array([5]), 1), np.zeros(20_000, dtype=bool)
    scoring, random = Scoring(1, unk=5, sampling=topk), torch.Generator().manual_seed(3)
    values, index = best_words(
        rule, scoring, [state], lambda: [lprobs.repeat(20_000, 1)], nowhere, nowhere, random=random
    )
    np.testing.assert_allclose(values, lprobs.numpy()[index], rtol=1e-6)
    counts = np.bincount(index.squeeze(1), minlength=6)
    assert counts[len(wanted) :].sum() == 0
    expected = 20_000 * wanted
    assert (
        (counts[: len(wanted)] - expected) ** 2 / expected
    ).sum() < 18.5  # 4 degrees of freedom: one in a thousand


@torch.no_grad()
def test_the_seed(dictionary, documents):
    """The same words are drawn again with it; equal documents have different translations, also in
    different batches.
    """
    model = tiny_model(dictionary).double()
    batch = documents(random.Random(2), SHAPES) * 2
    found, again, other = (
        [
            hypothesis["tokens"].tolist()
            for (hypothesis,) in sampler(dictionary, [model], seed)(batch)
        ]
        for seed in (1, 1, 2)
    )
    assert found == again != other
    assert found[:3] != found[3:]
    model.decoder.output_projection.weight.zero_()  # all words are equally probable
    one, other = (
        [hypothesis["tokens"].tolist() for (hypothesis,) in sampler(dictionary, [model])(batch)]
        for batch in (documents(random.Random(number), SHAPES) for number in (3, 4))
    )
    assert one != other


@torch.no_grad()
def test_sentences_and_limits_are_kept_and_scores_are_the_models(dictionary, documents):
    model = tiny_model(dictionary).double()
    batch = documents(random.Random(3), SHAPES)
    translate = sampler(dictionary, [model], max_len_b=1)
    for source, shape, (hypothesis,) in zip(batch, SHAPES, translate(batch), strict=True):
        sentences = translate.sentences(hypothesis)
        assert all(
            1 <= len(words) <= most + 1 for words, most in zip(sentences, shape, strict=True)
        )
        target = hypothesis["tokens"]
        read = [dictionary.bos(), *target[:-1].tolist()]
        lprobs = (
            log_probabilities(model, source, [read])[0].gather(1, target.unsqueeze(1)).squeeze(1)
        )
        chosen = target.ne(dictionary.bos()) & target.ne(dictionary.index("[de]"))
        expected = lprobs.where(chosen, torch.zeros(()).double())
        torch.testing.assert_close(
            hypothesis["positional_scores"].double(), expected, atol=1e-5, rtol=1e-5
        )
