"""Beam search against the one written out, with documents that enter, leave and wait; with and
without the rule.
"""

import random

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.search.beam import BeamSearch
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.core.search.written_out import assert_same, beam_search, limits_of
from tests.support import random_document, random_lengths, tiny_model

pytestmark = pytest.mark.slow

OPTIONS = {
    "greedy": {"beam": 1, "min_len": 3},
    "beam": {"beam": 4, "max_len_a": 1.5, "max_len_b": 1},
    "wide": {"beam": 9, "max_len_a": 0.5, "max_len_b": 1},
    "short": {"beam": 3, "max_len_a": 0, "max_len_b": 0},
    "long": {"beam": 3, "max_len_a": 2, "max_len_b": 3, "min_len": 4},
    "scores": {"beam": 4, "lenpen": 0.3, "unkpen": 0.7, "temperature": 1.7},
    "sums": {"beam": 4, "unnormalized": True, "lenpen": 2.0},
}


def both_ways(dictionary, models, batch, options, **task):
    """The search, all documents together, against the one written out, one after the other."""
    translate = Translator(
        dictionary, models, task, **{"max_len_a": 1.2, "max_len_b": 2, **options}
    )
    found = translate(batch)
    for document, hypotheses in zip(batch, found, strict=True):
        limits = limits_of(translate.generator, document)
        assert_same(hypotheses, beam_search(translate.generator, document, limits))
    return translate, found


@torch.no_grad()
@pytest.mark.parametrize(
    ("system", "name", "rule"),
    [
        *((system, "beam", "on") for system in SYSTEMS),
        *(("gtransformer", name, rule) for name in OPTIONS for rule in ("on", "off")),
    ],
)
def test_finds_what_the_search_written_out_finds(dictionary, documents, system, name, rule):
    draw = random.Random(f"{system} {name}")  # every pair has its own documents
    model = SYSTEMS[system](dictionary)
    batch = documents(draw, [random_lengths(draw, draw.randint(1, 5), 4) for _ in range(3)])
    translate, found = both_ways(dictionary, [model], batch, OPTIONS[name], sentence_rule=rule)
    if rule == "on":
        for document, (best, *_) in zip(batch, found, strict=True):
            assert len(translate.sentences(best)) == document.count(dictionary.bos())


@torch.no_grad()
def test_an_ensemble(dictionary, documents):
    models = [SYSTEMS[name](dictionary) for name in ("gtransformer", "doc_transformer")]
    both_ways(
        dictionary,
        models,
        documents(random.Random(12), [[3, 2], [1], [4, 4, 1]]),
        {"beam": 4, "unkpen": 0.5},
    )


@torch.no_grad()
def test_fewer_hypotheses_than_beams(two_words):
    """w0, w1 and <unk>, or an empty sentence alone."""
    draw = random.Random(4)
    batch = [random_document(draw, two_words, lengths) for lengths in ([1], [3, 3, 2], [0])]
    _, found = both_ways(
        two_words,
        [tiny_model(two_words).double()],
        batch,
        {"beam": 8, "max_len_a": 1, "max_len_b": 0},
    )
    assert [len(nbest) for nbest in found] == [3, 8, 1]


@torch.no_grad()
def test_long_documents(dictionary, documents):
    """Sentences longer than the first capacity of the caches, and hundreds of tokens behind the
    trunk.
    """
    draw = random.Random(13)
    batch = documents(draw, [[70, 1], random_lengths(draw, 15, 9), [3], [2, 50, 2]])
    options = {"beam": 2, "max_len_a": 1, "max_len_b": 0, "min_len": 1 << 20}
    both_ways(dictionary, [tiny_model(dictionary, 1).double()], batch, options)


def test_finished_documents_leave_the_batch(dictionary, documents, monkeypatch):
    sizes, step = [], BeamSearch._step
    monkeypatch.setattr(
        BeamSearch, "_step", lambda self: (sizes.append(len(self.active)), step(self))
    )
    batch = documents(random.Random(14), [[n] for n in (9, 1, 1, 1, 2)])
    Translator(dictionary, [tiny_model(dictionary)], beam=2, max_len_a=1, max_len_b=10)(batch)
    assert sizes[0] == 5 and sizes[-1] == 1


@torch.no_grad()
def test_weights_that_are_not_numbers(dictionary, documents):
    model = tiny_model(dictionary)
    model.decoder.layers[0].fc1.weight.fill_(float("nan"))
    with pytest.raises(UserError, match="not numbers"):
        Translator(dictionary, [model], beam=2, max_len_b=3)(documents(random.Random(1), [[2, 1]]))


@pytest.mark.parametrize(
    "options",
    [
        {"sampling": True, "sampling_topp": 0.8},
        {"no_repeat_ngram_size": 2},
        {"sampling": True, "beam": 2},
    ],
)
def test_options_that_would_be_ignored(dictionary, options):
    with pytest.raises(UserError, match=list(options)[-1].replace("_", "-")):
        Translator(dictionary, [tiny_model(dictionary)], **options)
