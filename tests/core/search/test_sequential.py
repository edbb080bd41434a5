"""Ways through documents: token for token what a slow loop finds that encodes and decodes every window again."""

from __future__ import annotations

import itertools
import random
from itertools import pairwise

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.search.sequential import SequentialGenerator
from gtransformer.search.strategies import SEQUENTIAL, SLIDING, Strategy
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.core.search.test_beam import assert_same
from tests.core.search.test_brute_force import log_probabilities, word_indices
from tests.full_passes import use_caches
from tests.support import random_document, tiny_model

pytestmark = pytest.mark.slow

SHAPES = [[3, 1, 4, 2, 5], [2], [1, 6, 2], [4, 0, 3, 3]]
SEARCH = {"beam": 3, "max_len_a": 1.2, "max_len_b": 2}
# Of SYSTEMS; that each begins after a forced prefix is tested in tests/core/models/test_forced_prefixes.py.
WAYS = "gtransformer", "gtransformer with SSRU", "lst_transformer by sentence", "window linear, relative"


def translated(dictionary, models, strategy: Strategy, batch, **options):
    """The best hypothesis of every document, by a strategy."""
    translate = Translator(dictionary, models, **{**SEARCH, **options})
    translate.generator = SequentialGenerator(translate.generator, strategy)
    found = translate(batch)
    assert all(len(one) == 1 for one in found)
    return [one[0] for one in found]


def sentences_of(dictionary, tokens: list[int]) -> list[list[int]]:
    """``<s> words </s>`` each."""
    begins = [place for place, token in enumerate(tokens) if token == dictionary.bos()]
    return [tokens[first:last] for first, last in pairwise([*begins, len(tokens)])]


def slow_loop(dictionary, model, document: list[int], ways: list[tuple[int, int, int, int]]) -> list[int]:
    """Window by window with the plain generator: encoded again, no caches, the prefix given to fairseq's loop.

    fairseq counts a prefix in a hypothesis's score: what is not divided by length is ranked alike all the same.
    """
    use_caches(model, False)
    task = {"sentence_rule": "on", "langs": "en,de"}
    plain = Translator(dictionary, [model], task, **SEARCH, unnormalized=True)
    source, chosen = sentences_of(dictionary, document), []
    for first, prefix_start, new, last in ways:
        prefix = sum(chosen[prefix_start:new], [])
        begun = [[*prefix, dictionary.bos()][1:]] if prefix else None
        ((best, *_),) = plain.fairseqs([sum(source[first:last], [])], begun)
        written = [dictionary.bos(), *best["tokens"].tolist()[:-1]]
        found = sentences_of(dictionary, written)
        assert found[: new - prefix_start] == chosen[prefix_start:new]
        chosen += found[new - prefix_start :]
        assert len(chosen) == last
    use_caches(model, True)
    return [*sum(chosen, [])[1:], dictionary.index("[de]")]


@torch.no_grad()
@pytest.mark.parametrize("name", WAYS)
def test_sequential_equals_the_slow_loop(dictionary, documents, name):
    """Several documents at once; the ways are written out here."""
    model, batch = SYSTEMS[name](dictionary), documents(random.Random(31), SHAPES)
    found = translated(dictionary, [model], Strategy(SEQUENTIAL, context=2), batch, unnormalized=True)
    for document, shape, one in zip(batch, SHAPES, found, strict=True):
        ways = [(max(0, i - 2), max(0, i - 2), i, i + 1) for i in range(len(shape))]
        assert one["tokens"].tolist() == slow_loop(dictionary, model, document, ways)


@torch.no_grad()
@pytest.mark.parametrize("name", WAYS)
def test_sliding_equals_the_slow_loop(dictionary, documents, name):
    """Windows of at most 15 tokens; sentences cost 5 3 6 4 7, 4, 3 8 4, and 6 2 5 5."""
    model, batch = SYSTEMS[name](dictionary), documents(random.Random(32), SHAPES)
    found = translated(dictionary, [model], Strategy(SLIDING, tokens=15), batch, unnormalized=True)
    ways = [
        [(0, 0, 0, 3), (1, 1, 3, 4), (3, 3, 4, 5)],
        [(0, 0, 0, 1)],
        [(0, 0, 0, 3)],
        [(0, 0, 0, 3), (1, 1, 3, 4)],
    ]
    for document, way, one in zip(batch, ways, found, strict=True):
        assert one["tokens"].tolist() == slow_loop(dictionary, model, document, way)


@torch.no_grad()
def test_contexts_of_different_lengths(dictionary, documents):
    """Three previous source sentences, one of the target (--instances current)."""
    model, batch = SYSTEMS["doc_transformer"](dictionary), documents(random.Random(33), SHAPES)
    strategy = Strategy(SEQUENTIAL, context=3, target_context=1)
    found = translated(dictionary, [model], strategy, batch, beam=1)
    for document, one in zip(batch, found, strict=True):
        source, chosen = sentences_of(dictionary, document), []
        for i, sentence in enumerate(source):
            window, limit = sum(source[max(0, i - 3) : i + 1], []), int(1.2 * (len(sentence) - 2) + 2)
            prefix = [*sum(chosen[max(0, i - 1) :], []), dictionary.bos()]
            written = [dictionary.bos()]
            while written[-1] != dictionary.eos():
                scores = log_probabilities(model, torch.tensor([window]), [[*prefix, *written[1:]]])[0, -1]
                allowed = [dictionary.eos()] if len(written) > limit else word_indices(dictionary)
                allowed += [dictionary.eos()] if len(written) > 1 else []
                written.append(max(allowed, key=lambda token: scores[token].item()))
            chosen.append(written)
        assert one["tokens"].tolist() == [*sum(chosen, [])[1:], dictionary.index("[de]")]


@torch.no_grad()
@pytest.mark.parametrize("lenpen", [0.3, 1.0])
def test_the_best_of_all_behind_what_was_chosen(two_words, lenpen):
    """By enumeration: a sentence's score is its own, the prefix neither costs nor counts in its length."""
    model = SYSTEMS["doc_transformer"](two_words)
    document = random_document(random.Random(3), two_words, [2, 1, 2])
    options = {"beam": 60, "max_len_a": 0, "max_len_b": 2, "lenpen": lenpen}
    (found,) = translated(two_words, [model], Strategy(SEQUENTIAL, context=1), [document], **options)
    source, chosen, total = sentences_of(two_words, document), [], 0.0
    bos, eos = two_words.bos(), two_words.eos()
    for i in range(3):
        before = chosen[-1] if chosen else []
        scored = []
        for length in (1, 2):
            for body in itertools.product(word_indices(two_words), repeat=length):
                read = [*before, bos, *body, eos]
                steps = log_probabilities(model, torch.tensor([sum(source[max(0, i - 1) : i + 1], [])]), [read])[0]
                own = sum(float(steps[place - 1, read[place]]) for place in range(len(before) + 1, len(read)))
                scored.append((own / (length + 2) ** lenpen, own, [bos, *body, eos]))
        _, own, best = max(scored)
        chosen.append(best)
        total += own
    expected = [*sum(chosen, [])[1:], two_words.index("[de]")]
    assert found["tokens"].tolist() == expected
    assert found["score"].item() == pytest.approx(total / len(expected) ** lenpen, rel=1e-5)
    assert found["positional_scores"].sum().item() == pytest.approx(total, rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", WAYS)
def test_one_window_is_the_full_document(dictionary, documents, name):
    model, batch = SYSTEMS[name](dictionary), documents(random.Random(34), SHAPES)
    full = Translator(dictionary, [model], {"sentence_rule": "on"}, **SEARCH)(batch)
    found = translated(dictionary, [model], Strategy(SLIDING, tokens=max(map(len, batch))), batch)
    assert_same([[one] for one in found], [one[:1] for one in full])


def test_searches_that_cannot_be(dictionary):
    with pytest.raises(UserError, match="--strategy sequential makes one translation"):
        translated(dictionary, [tiny_model(dictionary)], Strategy(SEQUENTIAL), [], nbest=2)
    with pytest.raises(UserError, match="--sentence-rule off"):
        free = tiny_model(dictionary, doc_mode="full")
        translated(dictionary, [free], Strategy(SEQUENTIAL), [])
