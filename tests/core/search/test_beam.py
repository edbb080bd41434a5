"""Our beam search against fairseq's loop, with documents that enter, leave and wait; with and without the rule."""

import random

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.search import beam as beam_module
from tests.core.search.conftest import Translator
from tests.support import random_lengths, tiny_model

pytestmark = pytest.mark.slow

MODELS = {"combined": {}, "group": {"encoder_ctxlayers": 0, "decoder_ctxlayers": 0, "cross_ctxlayers": 0}}
OPTIONS = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "max_len_a": 1.5, "max_len_b": 1},
    "wide": {"beam": 9, "max_len_a": 0.5, "max_len_b": 1},
    "short": {"beam": 3, "max_len_a": 0, "max_len_b": 0},
    "long": {"beam": 3, "max_len_a": 2, "max_len_b": 3, "min_len": 4},
    "scores": {"beam": 4, "lenpen": 0.3, "unkpen": 0.7, "temperature": 1.7},
    "sums": {"beam": 4, "unnormalized": True, "lenpen": 2.0},
}


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert [h["tokens"].tolist() for h in a] == [h["tokens"].tolist() for h in b]
        for x, y in zip(a, b, strict=True):
            assert x["score"].item() == pytest.approx(y["score"].item(), abs=1e-5)
            pairs = x["positional_scores"].double(), y["positional_scores"].double()
            assert torch.allclose(*pairs, atol=1e-4)  # fairseq keeps sums in float32


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("mode", [*MODELS, "full"])
@pytest.mark.parametrize("name", OPTIONS)
def test_finds_what_fairseqs_loop_finds(dictionary, documents, mode, name):
    seed = [*OPTIONS].index(name) + len(OPTIONS) * [*MODELS, "full"].index(mode)  # every pair has its own documents
    draw = random.Random(seed)
    model = tiny_model(dictionary, seed, **MODELS.get(mode, {"doc_mode": mode})).double()
    batch = documents(draw, [random_lengths(draw, draw.randint(1, 6), 6) for _ in range(5)])
    options = {"max_len_a": 1.2, "max_len_b": 2, **OPTIONS[name]}
    if mode == "full":
        options["min_len"] = 1
    both_ways(dictionary, [model], batch, options, mode)


@torch.no_grad()
def test_group_attention_without_the_rule(dictionary, documents):
    """Translations may have more sentences than their source, and fewer."""
    draw, model = random.Random(17), tiny_model(dictionary, 5).double()
    batch = documents(draw, [random_lengths(draw, count, 6) for count in (4, 1, 6, 2)])
    both_ways(dictionary, [model], batch, {"beam": 4, "max_len_b": 6}, sentence_rule="off")


@torch.no_grad()
@pytest.mark.parametrize(
    "switch", [{"context_attention": "global"}, {"no_language_locality": True}, {"no_translation_locality": True}]
)
def test_models_of_the_ablations(dictionary, documents, switch):
    """Some of their layers have no group attention: documents that enter and leave are followed all the same."""
    draw = random.Random(15)
    model = tiny_model(dictionary, 2, **switch).double()
    batch = documents(draw, [random_lengths(draw, count, 6) for count in (4, 1, 6, 2)])
    both_ways(dictionary, [model], batch, {"beam": 3, "max_len_a": 1.2, "max_len_b": 2})


def both_ways(dictionary, models, batch, options, mode="partial", **task):
    """Our search against fairseq's loop."""
    translate = Translator(dictionary, models, {"doc_mode": mode, **task}, **options)
    found = translate(batch)
    assert_same(found, translate.fairseqs(batch))
    return found


@torch.no_grad()
def test_an_ensemble(dictionary, documents):
    draw = random.Random(12)
    models = [tiny_model(dictionary, seed, **options).double() for seed, options in enumerate(MODELS.values())]
    batch = documents(draw, [[3, 2], [1], [4, 4, 1]])
    both_ways(dictionary, models, batch, {"beam": 4, "max_len_a": 1.2, "max_len_b": 2, "unkpen": 0.5})


@torch.no_grad()
@pytest.mark.slow
def test_long_documents(dictionary, documents):
    """Sentences longer than the first capacity of the caches, and hundreds of tokens behind the trunk."""
    draw = random.Random(13)
    model = tiny_model(dictionary, 1).double()
    shapes = [[90], random_lengths(draw, 20, 9), [3], [2, 70, 2], random_lengths(draw, 8, 20), [1], [100, 1]]
    batch = documents(draw, shapes)
    found = both_ways(dictionary, [model], batch, {"beam": 3, "max_len_a": 1, "max_len_b": 0, "min_len": 1 << 20})
    assert len(found[1][0]["tokens"]) == sum(shapes[1]) + 2 * 20


def test_finished_documents_leave_the_batch(dictionary, documents, monkeypatch):
    sizes = []
    step = beam_module.BeamSearch._step
    monkeypatch.setattr(beam_module.BeamSearch, "_step", lambda self: (sizes.append(len(self.active)), step(self)))
    draw = random.Random(14)
    batch = documents(draw, [[n] for n in (9, 1, 1, 1, 2)])
    options = {"beam": 2, "max_len_a": 1, "max_len_b": 10}
    Translator(dictionary, [tiny_model(dictionary)], **options)(batch)
    assert sizes[0] == 5 and sizes[-1] == 1


@torch.no_grad()
def test_weights_that_are_not_numbers(dictionary, documents):
    model = tiny_model(dictionary)
    model.decoder.layers[0].fc1.weight.fill_(float("nan"))
    translate = Translator(dictionary, [model], beam=2, max_len_b=3)
    with pytest.raises(UserError, match="not numbers"):
        translate(documents(random.Random(1), [[2, 1]]))
