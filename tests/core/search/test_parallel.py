"""All sentences of a document at a time: greedy search equals that over the document, token by
token.
"""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.search import parallel
from gtransformer.search.beam import BeamSearch
from gtransformer.search.strategies import PARALLEL
from tests.core.search import written_out
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.core.search.written_out import beam_search, limits_of, sentences_of
from tests.support import tiny_model

SHAPES = [[3, 1, 4, 2, 5], [2], [1, 6, 2], [4, 0, 3, 3], [2] * 7]
LIMITS = {"max_len_a": 1.2, "max_len_b": 2}
GROUP = {
    "encoder_ctxlayers": 2,
    "decoder_ctxlayers": 0,
    "cross_ctxlayers": 0,
    "positions": "sentence",
}
ALONE = {
    "group attention": {**GROUP, "encoder_ctxlayers": 0},
    "global in the encoder": GROUP,
    "global cross-attention": {**GROUP, "cross_ctxlayers": 2},
    "SSRU": {**GROUP, "decoder_unit": "ssru"},
    "no positions": {**GROUP, "positions": "document", "no_token_positional_embeddings": True},
}


def assert_same(found, expected):
    for ours, nbest in zip(found, expected, strict=True):
        names = "score", "tokens", "positional_scores"
        written_out.assert_same(ours, [[one[name].tolist() for name in names] for one in nbest])


def at_once(dictionary, models, batch, **options):
    """The hypotheses of --strategy parallel."""
    translate = Translator(dictionary, models, {"strategy": PARALLEL}, **{**LIMITS, **options})
    return translate(batch)


@pytest.fixture
def searches(monkeypatch):
    """For each search the number of hypotheses' groups at each of its steps."""
    found, begin, step = [], BeamSearch.__init__, BeamSearch._step
    monkeypatch.setattr(
        BeamSearch, "__init__", lambda self, *a, **k: (found.append([]), begin(self, *a, **k))[1]
    )
    monkeypatch.setattr(
        BeamSearch, "_step", lambda self: (found[-1].append(len(self.active)), step(self))[1]
    )
    return found


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_greedy_equals_the_document_in_order(dictionary, documents, name):
    """Systems with context on the target side: drafts, passes over them, and searches again, until
    nothing changes.
    """
    model, draw = SYSTEMS[name](dictionary), random.Random(41)
    for _ in range(2):
        batch = documents(draw, SHAPES)
        expected = Translator(dictionary, [model], {"sentence_rule": "on"}, beam=1, **LIMITS)(batch)
        assert_same(at_once(dictionary, [model], batch, beam=1), expected)


def strong_model(dictionary, draw: random.Random):
    """A model whose global attention is 4 to 12 times as strong, so that drafts are often wrong."""
    options = {
        "target_prefix": draw.choice([None, "w3"]),
        "positions": draw.choice(["document", "sentence"]),
    }
    model = tiny_model(dictionary, draw.randrange(10**6), **options).double()
    factor = draw.uniform(4, 12)
    for name, parameter in model.named_parameters():
        if "_global." in name:
            parameter.mul_(factor)
    return model


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_greedy_equals_the_order_where_sentences_depend_on_each_other(dictionary, documents, seed):
    """100 documents with ``<unk>`` and empty sentences, limits that cut, a word that each sentence
    begins with; some with penalties and by an ensemble.
    """
    draw = random.Random(seed)
    models = [strong_model(dictionary, draw)]
    if seed % 4 == 0:
        models.append(
            tiny_model(dictionary, seed, target_prefix=models[0].cfg.target_prefix).double()
        )
    shapes = [[draw.randint(0, 5) for _ in range(draw.randint(2, 7))] for _ in range(10)]
    batch = documents(draw, shapes)
    words = set(batch[0]) - {dictionary.bos(), dictionary.eos()}
    unknown = set(draw.sample(sorted(words), min(2, len(words))))
    batch = [
        [dictionary.unk() if token in unknown else token for token in document]
        for document in batch
    ]
    options = {"beam": 1, "max_len_a": draw.choice([0, 1.5]), "max_len_b": draw.randint(1, 4)}
    options |= draw.choice(
        [
            {"min_len": 3},
            {"unkpen": 0.5},
            {"lenpen": 0.3, "temperature": 1.7},
            {"unnormalized": True},
        ]
    )
    expected = Translator(dictionary, models, {"sentence_rule": "on"}, **options)(batch)
    assert_same(at_once(dictionary, models, batch, **options), expected)


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_independent_sentences(dictionary, documents, searches, name):
    """Greedy search, which needs no option here, against a plain loop over the full pass; one
    search is enough.
    """
    model, batch = (
        tiny_model(dictionary, 3, **ALONE[name]).double(),
        documents(random.Random(43), SHAPES),
    )
    translate = Translator(dictionary, [model], beam=1, **LIMITS)
    plain = translate(batch)
    assert len(searches) == 1 and searches[0][0] == sum(map(len, SHAPES))
    assert_same(at_once(dictionary, [model], batch, beam=1), plain)
    for document, found in zip(batch, plain, strict=True):
        limits = limits_of(translate.generator, document)
        written_out.assert_same(found, beam_search(translate.generator, document, limits))


@torch.no_grad()
def test_what_depends_on_other_sentences(dictionary, documents, searches):
    """Positions of the document, or global attention of the decoder: greedy search goes through it
    in order.
    """
    batch = documents(random.Random(44), SHAPES)
    for options in ({**GROUP, "positions": "document"}, {**GROUP, "decoder_ctxlayers": 1}):
        searches.clear()
        Translator(dictionary, [tiny_model(dictionary, **options)], beam=1, **LIMITS)(batch)
        assert len(searches) == 1 and searches[0][0] == len(SHAPES)


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_beams_after_a_greedy_translation(dictionary, documents, monkeypatch, name):
    """With enough drafts a sentence is what a search of its own finds after the greedy translation
    before it.
    """
    monkeypatch.setattr(parallel, "DRAFTS", 100)
    model, shapes = SYSTEMS[name](dictionary), [[3, 1, 2], [2], [1, 4]]
    batch = documents(random.Random(46), shapes)
    greedily = Translator(dictionary, [model], {"sentence_rule": "on"}, beam=1, **LIMITS)(batch)
    translate = Translator(dictionary, [model], {"strategy": PARALLEL}, beam=3, **LIMITS)
    found = translate(batch)
    for document, (context,), (one,) in zip(batch, greedily, found, strict=True):
        limits, before = limits_of(translate.generator, document), []
        tokens, scores = [], []
        for number, sentence in enumerate(
            sentences_of(dictionary, [dictionary.bos(), *context["tokens"].tolist()])
        ):
            best = beam_search(translate.generator, document, limits[: number + 1], before)[0]
            tokens += [dictionary.bos(), *best[1][:-1]]
            scores += [0.0, *best[2][:-1]]
            before += sentence
        assert one["tokens"].tolist() == [*tokens[1:], dictionary.index("[de]")]
        assert one["positional_scores"].tolist() == pytest.approx([*scores[1:], 0.0], abs=1e-5)


@torch.no_grad()
def test_drafts_within_learned_positions(dictionary, documents):
    """A source longer than its translation may be: a draft begins no later than its sentence then
    fits.
    """
    sizes = {"max_source_positions": 64, "max_target_positions": 24, "decoder_learned_pos": True}
    model = tiny_model(dictionary, 1, encoder_learned_pos=True, **sizes).double()
    batch = documents(random.Random(48), [[8, 8, 8, 8], [1, 2]])
    expected = Translator(dictionary, [model], {"sentence_rule": "on"}, beam=1, **LIMITS)(batch)
    assert_same(at_once(dictionary, [model], batch, beam=1), expected)


@pytest.mark.parametrize("options", [{"sampling": True, "beam": 1}, {"beam": 2, "nbest": 2}])
def test_searches_that_cannot_be(dictionary, options):
    with pytest.raises(UserError, match="--strategy parallel"):
        at_once(dictionary, [tiny_model(dictionary)], [], **options)
