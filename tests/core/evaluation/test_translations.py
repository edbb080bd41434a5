"""Translations are read whole or not at all, and every error names file and line."""

from __future__ import annotations

import pytest

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.translations import TranslatedInstance, align_sentences, read_translations
from tests.core.evaluation.support import HYPOTHESES, INSTANCES, jsonl_lines, write_jsonl


@pytest.fixture
def lines() -> list[dict]:
    """The good file's lines."""
    return jsonl_lines(HYPOTHESES)


@pytest.fixture
def read(tmp_path):
    """Write lines and read them as translations."""

    def run(lines: list[dict]):
        path = write_jsonl(tmp_path / "some.jsonl", lines)
        return read_translations(path, InstanceIndex("test", "en", "de", 2, INSTANCES))

    return run


def test_best_hypotheses_in_instance_order_whatever_the_order_of_lines(read, lines):
    """A line break inside a sentence cannot shift the text."""
    lines[1]["hypotheses"][0]["sentences"] = ["du kennst\nes\tgut ."]
    result = read(lines[::-1])
    assert [translation.hypothesis for translation in result] == HYPOTHESES
    assert [(t.document, t.first_sentence, t.sentences) for t in result] == INSTANCES
    assert not any(translation.misaligned for translation in result)


@pytest.mark.parametrize(
    ("hypothesis", "count", "in_front", "from_end"),
    [
        (["a", "b"], 2, ["a", "b"], ["a", "b"]),
        (["a"], 3, ["a", "", ""], ["", "", "a"]),
        ([], 2, ["", ""], ["", ""]),
        (["a", "b", "c", "d"], 2, ["a", "b c d"], ["a b c", "d"]),
        (["a", "b"], 1, ["a b"], ["a b"]),
    ],
)
def test_alignment_by_order(hypothesis, count, in_front, from_end):
    assert align_sentences(hypothesis, count) == in_front
    for current, expected in ((None, in_front), ((0, 1), in_front), ((count - 1, 1), from_end)):
        assert (
            TranslatedInstance(0, 0, count, hypothesis, current).aligned(hypothesis) == expected
            or count == 1
        )
    assert align_sentences(hypothesis, count, from_end=True) == from_end
    assert align_sentences(hypothesis, 0, from_end=True) == []
