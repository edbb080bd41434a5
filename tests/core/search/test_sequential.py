"""Ways through documents: token for token what a search written out finds, window by window."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.search.sequential import SequentialGenerator
from gtransformer.search.strategies import SEQUENTIAL, SLIDING, Strategy
from tests.core.search import written_out
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.core.search.written_out import beam_search, limits_of, sentences_of
from tests.support import tiny_model

pytestmark = pytest.mark.slow

SHAPES = [[3, 1, 4, 0, 5], [2], [1, 6, 2]]
SEARCH = {"beam": 3, "max_len_a": 1.2, "max_len_b": 2}
# Of SYSTEMS; that each begins after a forced prefix is tested in
# tests/core/models/test_forced_prefixes.py.
WAYS = (
    "gtransformer",
    "gtransformer with SSRU",
    "doc_transformer",
    "lst_transformer by sentence",
    "window linear, relative",
)


def window_by_window(
    generator, document: list[int], strategy: Strategy
) -> tuple[float, list[int], list[float]]:
    """Score, tokens and their scores by a search written out; each window is encoded again."""
    dictionary, chosen, scores = generator.tgt_dict, [], []
    source = sentences_of(dictionary, document)
    for way in strategy.windows([len(one) for one in source]):
        window, prefix = sum(source[way.first : way.last], []), chosen[way.prefix_start : way.new]
        limits = [0] * len(prefix) + limits_of(generator, sum(source[way.new : way.last], []))
        _, tokens, costs = beam_search(generator, window, limits, sum(prefix, []))[0]
        chosen += sentences_of(dictionary, [dictionary.bos(), *tokens[:-1]])
        scores += [0.0, *costs[:-1]]
    tokens = [*sum(chosen, [])[1:], generator.rule.language]
    return sum(scores) / len(tokens), tokens, [*scores[1:], 0.0]


@torch.no_grad()
@pytest.mark.parametrize(
    "strategy",
    [
        Strategy(SEQUENTIAL, context=2),
        Strategy(SEQUENTIAL, context=3, target_context=1),
        Strategy(SLIDING, tokens=15),  # sentences cost 5 3 6 2 7, 4, and 3 8 4
        Strategy(SLIDING, tokens=100),  # the whole document
    ],
    ids=str,
)
@pytest.mark.parametrize("name", WAYS)
def test_equals_the_search_written_out(dictionary, documents, name, strategy):
    """Several documents at once, against window by window of each, encoded again, without
    caches.
    """
    model, batch = SYSTEMS[name](dictionary), documents(random.Random(31), SHAPES)
    translate = Translator(dictionary, [model], {"sentence_rule": "on"}, **SEARCH)
    generator = translate.generator
    translate.generator = SequentialGenerator(generator, strategy)
    for document, found in zip(batch, translate(batch), strict=True):
        written_out.assert_same(found, [window_by_window(generator, document, strategy)])


def test_several_hypotheses(dictionary):
    with pytest.raises(UserError, match="--strategy sequential makes one translation"):
        SequentialGenerator(
            Translator(dictionary, [tiny_model(dictionary)], nbest=2).generator,
            Strategy(SEQUENTIAL),
        )
