"""Translations are read whole or not at all, and every error names file and line."""

from __future__ import annotations

import json

import pytest

from gtransformer.data.sentence_alignment import align_sentences
from gtransformer.data.sidecar import Sidecar
from gtransformer.data.translations import read_translations
from gtransformer.errors import UserError


@pytest.fixture
def lines(helpers) -> list[dict]:
    """The good file's lines."""
    return helpers.jsonl_lines(helpers.HYPOTHESES)


@pytest.fixture
def read(tmp_path, helpers):
    """Write lines (objects or raw text) and read them as translations."""

    def run(lines: list):
        path = tmp_path / "some.jsonl"
        path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines), encoding="utf-8")
        return read_translations(path, Sidecar("test", "en", "de", 2, helpers.INSTANCES))

    return run


def test_best_hypotheses_in_instance_order_whatever_the_order_of_lines(read, lines, helpers) -> None:
    result = read(lines[::-1])
    assert [translation.hypothesis for translation in result] == helpers.HYPOTHESES
    assert [(t.document, t.first_sentence, t.sentences) for t in result] == helpers.INSTANCES
    assert not any(translation.misaligned for translation in result)


def test_line_breaks_inside_a_sentence_cannot_shift_the_text(read, lines) -> None:
    lines[1]["hypotheses"][0]["sentences"] = ["du kennst\nes\tgut ."]
    assert read(lines)[1].hypothesis == ["du kennst es gut ."]


def test_missing(read, lines) -> None:
    with pytest.raises(UserError, match=r"some\.jsonl: 2 of 3 instances are missing \(ids 0, 2\)"):
        read(lines[1:2])


def test_empty_file(read) -> None:
    with pytest.raises(UserError, match="3 of 3 instances are missing"):
        read([])


def test_doubled(read, lines) -> None:
    with pytest.raises(UserError, match=r"some\.jsonl, line 4: instance 1 stands on line 2 already"):
        read([*lines, lines[1]])


def test_of_a_larger_split(read, lines) -> None:
    with pytest.raises(UserError, match=r"line 4: instance 3 is not among the 3"):
        read([*lines, {**lines[2], "id": 3}])


def test_of_another_split(read, lines) -> None:
    lines[1]["first_sentence"] = 1
    with pytest.raises(UserError, match=r"line 2: instance 1 has .*\(0, 1, 1\), but \(0, 2, 1\) in the prepared split"):
        read(lines)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: "{", "line 2: not valid JSON"),
        (lambda line: [1], "line 2: not a JSON object"),
        (lambda line: {**line, "id": "1"}, "line 2: 'id' is missing or not a whole number"),
        (lambda line: {key: line[key] for key in line if key != "document"}, "line 2: 'document' is missing"),
        (lambda line: {**line, "hypotheses": []}, "line 2: 'hypotheses' holds no list of sentences"),
        (
            lambda line: {**line, "hypotheses": [{"sentences": "abc"}]},
            "line 2: 'hypotheses' holds no list of sentences",
        ),
        (lambda line: {**line, "hypotheses": [{"sentences": [1]}]}, "line 2: 'hypotheses' holds no list of sentences"),
    ],
)
def test_damaged_line(read, lines, change, message) -> None:
    with pytest.raises(UserError, match=message):
        read([lines[0], change(lines[1]), lines[2]])


def test_missing_file(tmp_path) -> None:
    with pytest.raises(UserError, match="nothing.jsonl: no such file"):
        read_translations(tmp_path / "nothing.jsonl", Sidecar("test", "en", "de", 0))


@pytest.mark.parametrize(
    ("hypothesis", "count", "aligned"),
    [
        (["a", "b"], 2, ["a", "b"]),
        (["a"], 3, ["a", "", ""]),
        ([], 2, ["", ""]),
        (["a", "b", "c", "d"], 2, ["a", "b c d"]),
        (["a", "b"], 1, ["a b"]),
    ],
)
def test_alignment_by_order(hypothesis, count, aligned) -> None:
    assert align_sentences(hypothesis, count) == aligned


@pytest.mark.parametrize(
    ("hypothesis", "count", "aligned"),
    [
        (["a", "b"], 2, ["a", "b"]),
        (["a"], 3, ["", "", "a"]),
        ([], 2, ["", ""]),
        (["a", "b", "c", "d"], 2, ["a b c", "d"]),
        (["a", "b"], 1, ["a b"]),
        (["a", "b"], 0, []),
    ],
)
def test_alignment_from_the_end(hypothesis, count, aligned) -> None:
    assert align_sentences(hypothesis, count, from_end=True) == aligned
