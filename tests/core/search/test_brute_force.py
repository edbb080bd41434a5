"""Search against enumeration over the full forward pass in float64."""

import itertools
import random

import pytest
import torch

from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.core.search.written_out import log_probabilities, word_indices
from tests.support import random_document

pytestmark = pytest.mark.slow


def enumerate_hypotheses(dictionary, sentences, limit, min_len):
    """Every document that the constraint allows, as the decoder reads it: without the language
    symbol at its end.
    """
    words = word_indices(dictionary)
    one = [
        [dictionary.bos(), *body, dictionary.eos()]
        for length in range(min_len, limit + 1)
        for body in itertools.product(words, repeat=length)
    ]
    return [sum(parts, []) for parts in itertools.product(one, repeat=sentences)]


def best_by_enumeration(model, dictionary, document, sentences, limit, min_len, lenpen):
    """(tokens, normalised score) of the best and the second best: <s> and the language symbol cost
    nothing.
    """
    language = dictionary.index("[de]")
    scored = []
    hypotheses = enumerate_hypotheses(dictionary, sentences, limit, min_len)
    for _, same_length in itertools.groupby(sorted(hypotheses, key=len), key=len):
        group = list(same_length)
        steps = log_probabilities(model, document, group)
        for row, read in zip(steps, group, strict=True):
            tokens = [*read[1:], language]
            costs = [float(row[i, t]) for i, t in enumerate(read[1:]) if t != dictionary.bos()]
            scored.append((sum(costs) / len(tokens) ** lenpen, tokens))
    return sorted(scored, reverse=True)


@torch.no_grad()
@pytest.mark.parametrize("lenpen", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("name", ["gtransformer", "lst_transformer by sentence"])
@pytest.mark.parametrize("min_len", [0, 1])
def test_wide_beam_finds_the_best_of_all(two_words, name, lenpen, min_len):
    model = SYSTEMS[name](two_words)
    for seed in range(2):
        document = random_document(random.Random(seed), two_words, [2, 1])
        expected = best_by_enumeration(model, two_words, document, 2, 2, min_len, lenpen)
        translate = Translator(
            two_words, [model], beam=170, max_len_a=0, max_len_b=2, min_len=min_len, lenpen=lenpen
        )
        ((*found,),) = translate([document])
        assert len(found) == len(expected)  # 144 or 169 hypotheses, every one of them
        for hypothesis, (score, tokens) in list(zip(found, expected, strict=True))[:5]:
            assert hypothesis["tokens"].tolist() == tokens
            assert hypothesis["score"].item() == pytest.approx(score, rel=1e-5)
