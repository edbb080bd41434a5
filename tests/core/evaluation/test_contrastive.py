"""Contrastive items: scores equal one plain forward pass per candidate over the whole document; reports by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.cli.contrastive import item_table as table
from gtransformer.data.sentences import SentenceSpan
from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import accuracy, standard_error
from gtransformer.evaluation.contrastive import (
    IN_BATCH,
    IN_VIEW,
    OUT_OF_VIEW,
    Item,
    ItemScores,
    read_items,
    report,
    score_items,
)
from gtransformer.evaluation.sentence_scores import Request, SentenceScorer, size
from gtransformer.models.window import ALIGNMENTS
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
    assert [result.view == IN_VIEW for result in results] == [True, True, False, True, True]


@pytest.mark.parametrize("model", ["transformer"], indirect=True)
@pytest.mark.parametrize(("before", "target_before"), [(2, 2), (2, 0), (1, 3)])
def test_items_where_instances_overlap(model, dictionary, encode, before, target_before):
    """Each item is scored where its sentence is current, behind so many sentences of either side."""
    documents = [tuple([*side[0], *side[1]] for side in (SOURCES, TARGETS)), (SOURCES[2], TARGETS[2])]
    spans, instances = [], []
    for document, (source, target) in enumerate(documents):
        for current in range(len(source)):
            first, target_first = max(0, current - before), max(0, current - target_before)
            count = current + 1 - target_first
            spans.append(SentenceSpan(document, target_first, count, (current, 1)))
            instances.append((source[first : current + 1], target[target_first : current + 1]))
    scorer = SentenceScorer(model, dictionary, dictionary, 30)
    read = [tuple(map(encode, sides)) for sides in instances].__getitem__
    for result in score_items(scorer, ITEMS, spans, read, encode):
        item = result.item
        current = [(place.document, place.current[0]) for place in spans]
        number = current.index((item.document, item.sentence))
        source, target = read(number)
        texts = encode([item.correct, *item.wrong])
        expected = [score_by_hand(model, dictionary, source, [*target[:-1], text], len(target) - 1) for text in texts]
        assert [result.correct, *result.wrong] == pytest.approx(expected, abs=1e-9)
        assert (result.view == IN_VIEW) == (item.distance <= max(before, target_before))


def test_one_pass_for_all_right_translations_of_an_instance(model, dictionary, encode, read, monkeypatch):
    scorer = SentenceScorer(model, dictionary, dictionary)
    seen = []
    monkeypatch.setattr(scorer, "_score_batch", lambda r: (seen.extend(r), SentenceScorer._score_batch(scorer, r))[1])
    score_items(scorer, ITEMS, PLACES, read, encode)
    assert len(seen) == 3 + sum(len(item.wrong) for item in ITEMS)
    assert sorted(len(request.target) for request in seen) == sorted([3, 2, 4] + [2, 2, 3, 2, 2, 2, 3, 1])


def test_batches_hold_every_request_once_within_the_limit(encode):
    source = [encode(SOURCES[0]), encode(SOURCES[2])]
    requests = [Request(source[n % 2], encode(TARGETS[2])[: 1 + n % 4]) for n in range(30)]
    for limit in (1, 15, 40, 1000):
        groups = list(SentenceScorer.batches(SimpleNamespace(max_tokens=limit), requests))
        assert sorted(number for group in groups for number in group) == list(range(30))
        for group in groups:
            width = max(size(requests[number].target) for number in group)
            assert len(group) == 1 or width * len(group) <= limit


def test_batches_do_not_depend_on_where_sources_lie_in_memory(encode):
    """Sources of one length, whose ids come in any order: theirs is that of the first request that has each."""
    sources = sorted((encode(SOURCES[0]) for _ in range(20)), key=id)
    for order in (sources, sources[::-1], sources[10:] + sources[:10]):
        requests = [Request(source, encode(TARGETS[0])) for _ in range(2) for source in order]
        limit = SimpleNamespace(max_tokens=4 * size(requests[0].target))
        found = list(SentenceScorer.batches(limit, requests))
        assert found == [[n, n + 20, n + 1, n + 21] for n in range(0, 20, 2)]


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
    assert result["total"]["solved"] == 0 and result["tied"] == len(items)
    assert "tied" not in report(score_items(SentenceScorer(model, dictionary, dictionary), ITEMS, PLACES, read, encode))


@pytest.mark.parametrize(("place", "said"), [((2, 0), "not in the prepared split"), ((1, 1), "is not the reference")])
def test_items_of_another_corpus(model, dictionary, encode, read, place, said):
    scorer = SentenceScorer(model, dictionary, dictionary)
    with pytest.raises(UserError, match=f"item 9: .*{said}"):
        score_items(scorer, [Item(9, "pronoun", "", *place, 0, "w1", ("w2",))], PLACES, read, encode)


class Untrained:
    """In place of a scorer where its scores do not matter."""

    depends_on_length, together = False, 1

    def score(self, requests, progress):
        return [[0.0] * len(request.scored) for request in requests]


@pytest.mark.parametrize(
    ("distances", "sentences", "view"),
    [
        ((2, 2), (3, 3), IN_VIEW),
        ((3, 2), (3, 3), IN_VIEW),  # the target alone discloses within the instance
        ((3, 2), (4, 1), IN_VIEW),  # the source alone
        ((3, 2), (3, 2), OUT_OF_VIEW),
        ((1, 1), (1, 1), OUT_OF_VIEW),
    ],
)
def test_what_is_in_view(distances, sentences, view):
    """An instance of so many sentences of either side, of which the last is the item's."""
    sides = [[[number] for number in range(5 - count, 5)] for count in sentences]
    item = Item(0, "pronoun", "", 0, 4, min(distances), "right", ("wrong",), *distances)
    place = SentenceSpan(0, 5 - sentences[1], sentences[1], (4, 1))
    (found,) = score_items(Untrained(), [item], [place], lambda _: sides, lambda texts: [[4], [9]][: len(texts)])
    assert found.view == view


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
    assert standard_error(solved, [0] * 3 + [1] * 3 + [2] * 3) == pytest.approx(100 * math.sqrt(3) / 9)
    assert standard_error([True, False], [3, 3]) is None


def test_items_of_a_document_depend_on_each_other():
    """Unless they have groups of their own."""

    def scores(document: int, right: bool, **group) -> ItemScores:
        item = Item(0, "pronoun", "", document, 0, 1, "a", ("b",), **group)
        return ItemScores(item, float(right), (0.5,), IN_VIEW)

    pairs = [scores(document, right) for document, right in ((1, True), (2, False), (1, True), (2, False))]
    assert accuracy(pairs)["standard_error"] == pytest.approx(50.0)
    grouped = [scores(1, number < 3, group=number) for number in range(4)]
    assert accuracy(grouped)["standard_error"] == pytest.approx(25.0)


def test_report():
    def made(phenomenon: str, distance: int, correct: float, *wrong: float) -> ItemScores:
        item = Item(0, phenomenon, "", 0, 0, distance, "a", ("b",) * len(wrong))
        return ItemScores(item, correct, wrong, IN_VIEW if distance < 20 else OUT_OF_VIEW)

    result = report(
        [
            made("pronoun", 1, -1.0, -2.0, -3.0),
            made("pronoun", 5, -1.0, -2.0, -0.5),
            made("pronoun", 6, -1.0, -1.0),  # a tie is not solved
            made("address", 30, -1.0, -4.0),
        ]
    )
    assert result["total"]["solved"] == 2 and result["total"]["items"] == 4 and result["total"]["accuracy"] == 50.0
    assert result["total"]["mean_margin"] == pytest.approx((1 - 0.5 + 0 + 3) / 4)
    assert result["total"]["chance"] == pytest.approx(100 * (1 / 3 + 1 / 3 + 1 / 2 + 1 / 2) / 4)
    assert {name: part["solved"] for name, part in result["by_phenomenon"].items()} == {"address": 1, "pronoun": 1}
    rows = {name: (part["solved"], part["items"]) for name, part in result["by_distance"].items()}
    assert rows == {"1": (1, 1), "4-6": (0, 2), "25+": (1, 1)}
    assert list(result["by_phenomenon_and_distance"]["pronoun"]) == ["1", "4-6"]
    assert result["context_out_of_view"] == 1 and "by_distance_source" not in result


def test_report_by_either_side():
    def made(phenomenon: str, source: int, target: int, group: int, solved: bool, view: str = IN_VIEW) -> ItemScores:
        item = Item(0, phenomenon, "", 0, 0, min(source, target), "a", ("b",), source, target, group)
        return ItemScores(item, -1.0 if solved else -3.0, (-2.0,), view)

    scores = [made("pronoun", 1, 1, 0, True), made("pronoun", 30, 1, 1, False, IN_BATCH)]
    scores += [made("pronoun", 30, 30, 2, True, OUT_OF_VIEW), made("address", 14, 2, 3, True)]
    result = report(scores)
    assert {row: part["items"] for row, part in result["by_distance_source"].items()} == {"1": 1, "13-24": 1, "25+": 2}
    assert {row: part["items"] for row, part in result["by_distance_target"].items()} == {"1": 2, "2": 1, "25+": 1}
    assert result["by_distance"] == result["by_distance_target"]
    pronoun = result["by_phenomenon_and_distance_source"]["pronoun"]
    assert {row: part["solved"] for row, part in pronoun.items()} == {"1": 1, "25+": 1}
    view = result["by_phenomenon_and_view"]
    assert {name: part["items"] for name, part in view["pronoun"].items()} == dict.fromkeys(
        [IN_VIEW, IN_BATCH, OUT_OF_VIEW], 1
    )
    assert list(view["address"]) == [IN_VIEW]
    assert result["context_out_of_view"] == result["context_in_batch"] == 1
    lines = table(result).splitlines()
    assert lines[2].split() == "pronoun 3 50.0 100.0 - 50.0 ±50.0".split()
    assert lines[5].split() == "address 1 50.0 - 100.0 -".split()


ENTRY = {"id": 1, "phenomenon": "pronoun", "detail": "it -> er", "document": 0, "sentence": 2, "distance": 1,
         "correct": "Er bellt.", "wrong": ["Es bellt."]}  # fmt: skip
SIDES = {"distance_source": 3, "distance_target": 1, "group": 5}


def written(tmp_path, data: dict):
    path = tmp_path / "contrastive.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_reads_items(tmp_path):
    path = written(tmp_path, {"split": "test", "items": [ENTRY, ENTRY | SIDES]})
    item = Item(1, "pronoun", "it -> er", 0, 2, 1, "Er bellt.", ("Es bellt.",))
    both = Item(1, "pronoun", "it -> er", 0, 2, 1, "Er bellt.", ("Es bellt.",), 3, 1, 5)
    assert read_items(path) == ("test", [item, both])


@pytest.mark.parametrize(
    "change",
    [
        {"distance": None},
        {"distance": -1},
        {"document": True},
        {"wrong": []},
        {"wrong": [1]},
        {"correct": 3},
        {"others": [["a"]]},
        *({key: "3"} for key in SIDES),
    ],
)
def test_damaged_items(tmp_path, change):
    path = written(tmp_path, {"split": "test", "items": [ENTRY, ENTRY | change]})
    with pytest.raises(UserError, match=f"entry 1 of 'items' has no valid '{next(iter(change))}'"):
        read_items(path)
