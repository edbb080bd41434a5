"""Sets that tell source and target apart: what is read, what is in view, standard errors and tables."""

from __future__ import annotations

import json
import math

import pytest

from gtransformer.cli.contrastive_table import table
from gtransformer.data.places import Place
from gtransformer.errors import UserError
from gtransformer.evaluation.contrastive import (
    Item,
    ItemScores,
    accuracy,
    read_items,
    report,
    score_items,
    standard_error,
)


def made(phenomenon: str, source: int, target: int, group: int | None, solved: bool, wrong: int = 1) -> ItemScores:
    item = Item(0, phenomenon, "", 0, 0, min(source, target), "a", ("b",) * wrong, source, target, group)
    return ItemScores(item, -1.0 if solved else -3.0, (-2.0,) * wrong, context_in_view=target < 20)


def test_standard_errors() -> None:
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


def test_chance() -> None:
    scores = [made("pronoun", 1, 1, 0, True, wrong=2), made("address", 1, 1, 1, False)]
    assert accuracy(scores)["chance"] == pytest.approx(100 * (1 / 3 + 1 / 2) / 2)


def test_report_by_either_side() -> None:
    scores = [made("pronoun", 1, 1, 0, True), made("pronoun", 30, 1, 1, False), made("pronoun", 30, 30, 2, True)]
    scores.append(made("address", 14, 2, 3, True))
    result = report(scores)
    assert {row: part["items"] for row, part in result["by_distance_source"].items()} == {"1": 1, "13-24": 1, "25+": 2}
    assert {row: part["items"] for row, part in result["by_distance_target"].items()} == {"1": 2, "2": 1, "25+": 1}
    assert result["by_distance"] == result["by_distance_target"]
    pronoun = result["by_phenomenon_and_distance_source"]["pronoun"]
    assert {row: part["solved"] for row, part in pronoun.items()} == {"1": 1, "25+": 1}
    view = result["by_phenomenon_and_view"]
    assert {name: part["items"] for name, part in view["pronoun"].items()} == {"in view": 2, "out of view": 1}
    assert list(view["address"]) == ["in view"] and result["context_out_of_view"] == 1
    lines = table(result).splitlines()
    assert lines[0].split() == "disclosed by source items chance at 1 at 13-24 at 25+".split()
    assert lines[2].split() == "pronoun 3 50.0 100.0 - 50.0 ±50.0".split()
    assert lines[4].split() == "disclosed by target items chance at 1 at 2 at 25+".split()
    assert lines[5].split() == "address 1 50.0 - 100.0 -".split()
    assert "1 items" in lines[-1]


class Untrained:
    """In place of a scorer where its scores do not matter."""

    minds_length, together = False, 1

    def score(self, requests, progress):
        return [[0.0] * len(request.asked) for request in requests]


@pytest.mark.parametrize(
    ("source", "target", "sentences", "in_view"),
    [
        (2, 2, (3, 3), True),
        (3, 2, (3, 3), True),  # the target alone discloses within the instance
        (3, 2, (4, 1), True),  # the source alone
        (3, 2, (3, 2), False),
        (1, 1, (1, 1), False),
    ],
)
def test_what_is_in_view(source, target, sentences, in_view) -> None:
    """An instance of so many sentences of either side, of which the last is the item's."""
    sides = [[[number] for number in range(5 - count, 5)] for count in sentences]
    item = Item(0, "pronoun", "", 0, 4, min(source, target), "right", ("wrong",), source, target)
    place = Place(0, 5 - sentences[1], sentences[1], (4, 1))
    (found,) = score_items(Untrained(), [item], [place], lambda _: sides, lambda texts: [[4], [9]][: len(texts)])
    assert found.context_in_view == in_view


def test_reads_both_distances(tmp_path) -> None:
    keys = {"id": 1, "phenomenon": "pronoun", "detail": "it -> er", "document": 0, "sentence": 3, "distance": 1}
    entry = {
        **keys,
        "correct": "Er bellt.",
        "wrong": ["Es bellt."],
        "distance_source": 3,
        "distance_target": 1,
        "group": 5,
    }
    path = tmp_path / "contrastive_reach.json"
    path.write_text(json.dumps({"split": "test", "items": [entry]}), encoding="utf-8")
    assert read_items(path)[1] == [Item(1, "pronoun", "it -> er", 0, 3, 1, "Er bellt.", ("Es bellt.",), 3, 1, 5)]
    for key in ("distance_source", "distance_target", "group"):
        path.write_text(json.dumps({"split": "test", "items": [{**entry, key: "3"}]}), encoding="utf-8")
        with pytest.raises(UserError, match=f"entry 0 of 'items' has no valid '{key}'"):
            read_items(path)
