"""Strategies for plain text: line for line, by the model's own instances where nothing is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gtransformer.errors import UserError
from gtransformer.translation.api import GTransformer
from gtransformer.translation.options import SearchOptions
from tests.saved_model import on_cpu

pytestmark = pytest.mark.slow

SENTENCES = [
    "The old dog sleeps.",
    "Mary finds her book under two trees.",
    "The river sleeps near a house.",
]
DOCUMENT = [
    *SENTENCES,
    "The house.",
    *SENTENCES[::-1],
    "Two trees sleep under the river and near the old red house.",
]
DOCUMENTS = [DOCUMENT, DOCUMENT[2:5], [], DOCUMENT[:1]]


@pytest.fixture(scope="module")
def model(saved_model):
    return on_cpu(saved_model)


def limited(model: GTransformer, **limits) -> GTransformer:
    """The same model, trained on other instances."""
    return GTransformer(replace(model.directory, **limits), model.engine)


@pytest.mark.parametrize(
    "way",
    [
        {"strategy": "sequential", "context_sentences": 1},
        {"strategy": "sequential", "window_tokens": 45},
        {"strategy": "sliding", "window_tokens": 45},
        {"strategy": "parallel"},
    ],
)
def test_line_for_line(model, way):
    found = model.translate(DOCUMENTS, **way)
    assert [len(one) for one in found] == [len(one) for one in DOCUMENTS]
    assert all(text for one in found for text in one)
    for document, one in zip(DOCUMENTS, found, strict=True):
        assert model.translate(document, **way) == one
    if way["strategy"] == "sequential":
        for count in (1, 3, 6):
            assert model.translate(DOCUMENT[:count], **way) == found[0][:count]
    assert found != model.translate(DOCUMENTS)


@pytest.mark.parametrize(
    "way", [{"strategy": "sequential", "context_sentences": 1}, {"strategy": "sliding"}]
)
def test_drawn_window_by_window(model, way):
    """The same again with a seed; another seed draws another one."""
    found = [model.translate(DOCUMENTS, **way, sampling_topk=0, seed=seed) for seed in (1, 2)]
    assert [model.translate(DOCUMENTS, **way, sampling_topk=0, seed=2) for _ in range(2)] == [
        found[1]
    ] * 2
    equal = model.translate([DOCUMENT] * 3, **way, sampling_topk=0)
    assert equal[0] != equal[2]
    assert found[0] != found[1] and model.translate(DOCUMENTS, **way) not in found
    greedy = model.translate(DOCUMENTS, **way, beam=1, unkpen=1e6)  # <unk> is never drawn
    assert model.translate(DOCUMENTS, **way, sampling_topk=1) == greedy


def test_what_is_left_open_the_models_instances_decide(model):
    given = model.translate(
        DOCUMENTS, strategy="sliding", window_tokens=model.max_instance_tokens - 1
    )
    assert model.translate(DOCUMENTS, strategy="sliding") == given
    by_two = limited(model, max_sents=3)
    given = model.translate(DOCUMENTS, strategy="sequential", context_sentences=2)
    assert by_two.translate(DOCUMENTS, strategy="sequential") == given


@pytest.mark.parametrize("way", [{}, {"window_tokens": 39}])
def test_a_sentence_longer_than_a_window_is_cut_in_parts(model, way):
    """With what fills the window that was chosen or that the model's instances give; a warning says
    so.
    """
    long = " ".join(["The old dog sleeps near the river and Mary finds her book."] * 8)
    small = limited(model, max_instance_tokens=40)
    with pytest.warns(UserWarning, match="1 in all .*sentence 2 of document 1"):
        found = small.translate([SENTENCES[0], long, SENTENCES[1]], strategy="sliding", **way)
    assert len(found) == 3 and all(found)
    lines = [
        line
        for window in small.translate_lines([long], SearchOptions(strategy="sliding", **way))
        for line in window
    ]
    parts = [len(part) + 2 for line in lines for part in line.line.tokens]
    assert 20 < max(parts) <= 39 < sum(parts)


@pytest.mark.parametrize(
    ("limits", "way", "message"),
    [
        ({"max_sents": 1}, {"strategy": "sequential"}, "single sentences"),
        ({"max_sents": 1}, {"strategy": "parallel"}, "single sentences"),
        ({"max_sents": 1}, {"strategy": "sliding"}, "single sentences"),
        ({"max_instance_tokens": None}, {"strategy": "sliding"}, "give --window-tokens W"),
        ({}, {"strategy": "sliding", "window_tokens": 10_000_000}, "the model takes"),
    ],
)
def test_what_does_not_suit_the_model(model, limits, way, message):
    with pytest.raises(UserError, match=message):
        limited(model, **limits).translate(DOCUMENTS, **way)


def greedy(model: GTransformer, documents: list[list[str]], limit: int, **options) -> list:
    """The best hypothesis of each document whose sentences may have up to ``limit`` words."""
    wanted = SearchOptions(beam=1, max_len_a=0, max_len_b=limit, **options)
    found = model.engine.translate([model.encode(document) for document in documents], wanted)
    return [nbest[0] for nbest in found]


def test_translations_that_the_length_limit_ends_are_named(model):
    """In greedy search a translation that is longer with a higher limit was ended by the lower one,
    and no other.
    """
    alone = [[sentence] for sentence in SENTENCES]
    for short, long in zip(greedy(model, alone, 4), greedy(model, alone, 60), strict=True):
        assert short.at_limit == [len(short.sentences[0].split()) == 4]
        assert short.at_limit == [True] or short.sentences == long.sentences
    assert not any(one.at_limit[0] for one in greedy(model, alone, 1, sentence_rule="off"))
    with pytest.warns(UserWarning, match="2 in all .* of document 1, .* of document 2"):
        model.translate(alone[:2], max_len_a=0, max_len_b=1)
