"""Scores of sentences: batches, texts that are too long, models that have diverged, standard
errors.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import standard_error
from gtransformer.evaluation.sentence_scores import Request, SentenceScorer, size
from tests.core.evaluation.support import make_system

SOURCES = [["w1 w2", "w3", "w4 w5 w6"], ["w1", "w2 w2", "w3 w4", "w5"]]
TARGETS = [["w11", "w12 w13 w14", "w15"], ["w11 w12", "w13", "w14 w15 w16", "w17"]]


def test_batches_hold_every_request_once_within_the_limit(encode):
    source = [encode(SOURCES[0]), encode(SOURCES[1])]
    requests = [Request(source[n % 2], encode(TARGETS[1])[: 1 + n % 4]) for n in range(30)]
    for limit in (1, 15, 40, 1000):
        groups = list(SentenceScorer.batches(SimpleNamespace(max_tokens=limit), requests))
        assert sorted(number for group in groups for number in group) == list(range(30))
        for group in groups:
            width = max(size(requests[number].target) for number in group)
            assert len(group) == 1 or width * len(group) <= limit


def test_batches_do_not_depend_on_where_sources_lie_in_memory(encode):
    """Sources of one length, whose ids come in any order: theirs is that of the first request that
    has each.
    """
    sources = sorted((encode(SOURCES[0]) for _ in range(20)), key=id)
    for order in (sources, sources[::-1], sources[10:] + sources[:10]):
        requests = [Request(source, encode(TARGETS[0])) for _ in range(2) for source in order]
        limit = SimpleNamespace(max_tokens=4 * size(requests[0].target))
        found = list(SentenceScorer.batches(limit, requests))
        assert found == [[n, n + 20, n + 1, n + 21] for n in range(0, 20, 2)]


def test_a_model_that_has_diverged_is_not_scored(dictionary):
    """Numbers that are none compare as false: every item would be wrong, at an accuracy of 0 %."""
    model = make_system("gtransformer", dictionary)
    request = Request([[5, 6], [7]], [[5], [6, 7]], (1,), "item 3")
    scorer = SentenceScorer(model, dictionary, dictionary)
    assert np.isfinite(scorer.score([request])).all()
    next(model.decoder.layers[-1].parameters()).data.fill_(np.nan)
    for score in (scorer.score, scorer.score_tokens):
        with pytest.raises(UserError, match="item 3"):
            score([request])


def test_standard_errors():
    # Alone: three of four, sqrt(3/4 * 1/4 / 3).
    assert standard_error([True, True, True, False], [None] * 4) == pytest.approx(25.0)
    assert standard_error([True, True, True, False], [0, 1, 2, 3]) == pytest.approx(25.0)
    # In pairs that agree it is that of two outcomes, one of them right: sqrt(1/2 * 1/2 / 1).
    assert standard_error([True, False, True, False], [7, 9, 7, 9]) == pytest.approx(50.0)
    # One right of each pair: it could not have been otherwise.
    assert standard_error([True, False, False, True], [7, 7, 9, 9]) == 0.0
    # Residuals of the groups 2/3 + 2/3 - 1/3 = 1, -1/3 - 1/3 - 1/3 = -1 and 0: sqrt(2 * 3 / 2) / 9.
    solved = [True, True, False, False, False, False, True, False, False]
    assert standard_error(solved, [0] * 3 + [1] * 3 + [2] * 3) == pytest.approx(
        100 * math.sqrt(3) / 9
    )
    assert standard_error([True, False], [3, 3]) is None
