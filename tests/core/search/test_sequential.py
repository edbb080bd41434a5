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

SHAPES = [[3, 1, 4, 2, 5], [2], [1, 6, 2], [4, 0, 3, 3]]
SEARCH = {"beam": 3, "max_len_a": 1.2, "max_len_b": 2}
# Of SYSTEMS; that each begins after a forced prefix is tested in tests/core/models/test_forced_prefixes.py.
WAYS = (
    "gtransformer",
    "gtransformer with SSRU",
    "doc_transformer",
    "lst_transformer by sentence",
    "window linear, relative",
)


def ways_of(strategy: Strategy, lengths: list[int]) -> list[tuple[int, int, int, int]]:
    """The windows of a document, written out for the lengths of SHAPES."""
    if strategy.kind == SEQUENTIAL:
        before = strategy.target_context or strategy.context
        return [(max(0, i - strategy.context), max(0, i - before), i, i + 1) for i in range(len(lengths))]
    return {
        5: [(0, 0, 0, 3), (1, 1, 3, 4), (3, 3, 4, 5)],
        4: [(0, 0, 0, 3), (1, 1, 3, 4)],
    }.get(len(lengths), [(0, 0, 0, len(lengths))])


@torch.no_grad()
@pytest.mark.parametrize(
    "strategy",
    [
        Strategy(SEQUENTIAL, context=2),
        Strategy(SEQUENTIAL, context=3, target_context=1),
        Strategy(SLIDING, tokens=15),  # sentences cost 5 3 6 4 7, 4, 3 8 4, and 6 2 5 5
        Strategy(SLIDING, tokens=100),  # the whole document
    ],
    ids=str,
)
@pytest.mark.parametrize("name", WAYS)
def test_equals_the_search_written_out(dictionary, documents, name, strategy):
    """Several documents at once, against window by window of each, encoded again, without caches."""
    model, batch = SYSTEMS[name](dictionary), documents(random.Random(31), SHAPES)
    translate = Translator(dictionary, [model], {"sentence_rule": "on"}, **SEARCH)
    generator, language = translate.generator, dictionary.index("[de]")
    translate.generator = SequentialGenerator(generator, strategy)
    for document, shape, (found,) in zip(batch, SHAPES, translate(batch), strict=True):
        source, chosen, scores = sentences_of(dictionary, document), [], []
        ways = [(0, 0, 0, len(shape))] if strategy.tokens == 100 else ways_of(strategy, shape)
        for first, prefix_start, new, last in ways:
            window, prefix = sum(source[first:last], []), sum(chosen[prefix_start:new], [])
            limits = [0] * (new - prefix_start) + limits_of(generator, sum(source[new:last], []))
            _, tokens, costs = beam_search(generator, window, limits, prefix)[0]
            chosen += sentences_of(dictionary, [dictionary.bos(), *tokens[:-1]])
            scores += [0.0, *costs[:-1]]
        expected = [*sum(chosen, [])[1:], language]
        total = sum(scores) / len(expected)
        written_out.assert_same([found], [(total, expected, [*scores[1:], 0.0])])


def test_several_hypotheses(dictionary):
    with pytest.raises(UserError, match="--strategy sequential makes one translation"):
        SequentialGenerator(Translator(dictionary, [tiny_model(dictionary)], nbest=2).generator, Strategy(SEQUENTIAL))
