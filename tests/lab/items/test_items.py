"""Contrastive items: scores equal one plain forward pass per candidate over the whole document; reports by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.errors import UserError
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.lab.items.items import Item, report, score_items
from gtransformer.models.window import ALIGNMENTS
from gtransformer.plugin.sentences import SentenceSpan
from tests.core.evaluation.any_system import make_system, score_by_hand
from tests.core.models.test_window import window_model

WORDS = [f"w{number}" for number in range(20)]
PLACES = [SentenceSpan(0, 0, 3), SentenceSpan(0, 3, 2), SentenceSpan(1, 0, 4)]
SOURCES = [["w1 w2", "w3", "w4 w5 w6"], ["w7", "w8 w9"], ["w1", "w2 w2", "w3 w4", "w5"]]
TARGETS = [["w11", "w12 w13 w14", "w15"], ["w16 w17", "w18"], ["w11 w12", "w13", "w14 w15 w16", "w17"]]
ITEMS = [
    Item(0, "pronoun", "a", 0, 1, 1, "w12 w13 w14", ("w12 w12 w14", "w11")),
    Item(1, "address", "b", 0, 2, 2, "w15", ("w19 w19",)),
    Item(2, "pronoun", "c", 0, 4, 4, "w18", ("w2", "w3", "w4 w5 w6 w7")),
    Item(3, "ambiguity", "d", 1, 2, 2, "w14 w15 w16", ("w14 w15 w17",)),
    Item(4, "pronoun", "e", 1, 0, 0, "w11 w12", ("w12 w11",)),
]


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    """A joined dictionary with language symbols and <mask> at its end."""
    result = Dictionary()
    for word in [*WORDS, "[en]", "[de]", "<mask>"]:
        result.add_symbol(word)
    return result


@pytest.fixture(params=["gtransformer", "transformer"])
def model(request, dictionary):
    """In float64, with weights large enough to make sentences differ."""
    return make_system(request.param, dictionary)


@pytest.fixture
def encode(dictionary):
    """Sentences of words to token indices."""
    return lambda texts: [[dictionary.index(word) for word in text.split()] for text in texts]


@pytest.fixture
def read(encode):
    """Instances of SOURCES and TARGETS by number."""
    return lambda number: (encode(SOURCES[number]), encode(TARGETS[number]))


@pytest.mark.parametrize("max_tokens", [1, 4096])
def test_items_equal_brute_force(model, dictionary, encode, read, max_tokens):
    scorer = SentenceScorer(model, dictionary, dictionary, max_tokens)
    results = score_items(scorer, ITEMS, PLACES, read, encode)
    assert [result.item for result in results] == ITEMS
    spans = [(0, 1), (0, 2), (1, 1), (2, 2), (2, 0)]
    margins = []
    for result, (instance, sentence) in zip(results, spans, strict=True):
        expected = []
        for text in (result.item.correct, *result.item.wrong):
            target = [*TARGETS[instance][:sentence], text, *TARGETS[instance][sentence + 1 :]]
            expected.append(score_by_hand(model, dictionary, encode(SOURCES[instance]), encode(target), sentence))
        assert [result.correct, *result.wrong] == pytest.approx(expected, abs=1e-9)
        assert result.to_json()["solved"] == all(expected[0] > other for other in expected[1:])
        margins += [abs(expected[0] - other) for other in expected[1:]]
    assert min(margins) > 1e-3, "candidates must differ for this test to mean anything"


@torch.no_grad()
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_text_scores_the_same_as_right_and_as_wrong(dictionary, alignment, encode):
    """Where windows lie by the target's length, what stands behind the sentence moves them: it is seen by both."""
    model = window_model(dictionary, 2, train_alignment=alignment)
    scorer = SentenceScorer(model, dictionary, dictionary)

    def scores(place: int, targets: list[str], wrong: str):
        item = Item(0, "pronoun", "a", 0, place, place, targets[place], (wrong,))
        sides = tuple(map(encode, (SOURCES[0], targets)))
        return score_items(scorer, [item], PLACES[:1], lambda number: sides, encode)[0]

    for place, text in enumerate(TARGETS[0]):
        other = [*TARGETS[0][:place], "w1", *TARGETS[0][place + 1 :]]
        one, reverse = scores(place, TARGETS[0], "w1"), scores(place, other, text)
        assert one.wrong[0] == pytest.approx(reverse.correct, abs=1e-9)
        assert reverse.wrong[0] == pytest.approx(one.correct, abs=1e-9)


def test_equal_tokens_are_never_solved(model, dictionary, encode, read):
    """Words that the model does not know are one word to it: sums in another order must not decide."""
    items = [replace(item, wrong=(*item.wrong, item.correct)) for item in ITEMS]
    scores = score_items(SentenceScorer(model, dictionary, dictionary, 1), items, PLACES, read, encode)
    assert all(score.correct == score.wrong[-1] for score in scores)
    result = report(scores)
    assert result["total"]["solved"] == 0


def test_items_of_another_corpus(model, dictionary, encode, read):
    scorer = SentenceScorer(model, dictionary, dictionary)
    with pytest.raises(UserError, match="item 9 .*is not the reference"):
        score_items(scorer, [Item(9, "pronoun", "", 1, 1, 0, "w1", ("w2",))], PLACES, read, encode)
