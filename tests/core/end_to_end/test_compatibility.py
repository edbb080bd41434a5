"""Models, an exported model directory and a prepared corpus of an earlier state load, and give what they gave then."""

from __future__ import annotations

import json

import pytest

from tests.compatibility import observe

TOLERANCE = 1e-5
# Of a single position in a long document: other libraries and instructions of the processor, which change nothing else,
# change these by up to 2e-5.
AT_A_POSITION = 1e-4


@pytest.fixture(scope="module")
def expected():
    return json.loads((observe.HERE / "expected.json").read_text(encoding="utf-8"))


def near(value, tolerance: float = TOLERANCE):
    return pytest.approx(value, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("mode", observe.CHECKPOINTS)
def test_fairseq_finds_the_same_translations(expected, mode):
    """Tokens of the three best hypotheses of five, their scores, and the best one's scores by position."""
    found = observe.nbest(mode)
    assert {len(hypotheses) for hypotheses in found} == {3}
    for instance, then in zip(found, expected["nbest"][mode], strict=True):
        assert [one["tokens"] for one in instance] == [one["tokens"] for one in then]
        assert [one["score"] for one in instance] == near([one["score"] for one in then])
        assert instance[0]["positions"] == near(then[0]["positions"], AT_A_POSITION)


@pytest.mark.parametrize("mode", observe.CHECKPOINTS)
def test_references_are_as_probable(expected, mode):
    found = observe.likelihoods(mode)
    assert len(found) == len(expected["likelihoods"][mode]) > 1
    for instance, then in zip(found, expected["likelihoods"][mode], strict=True):
        assert instance == near(then, AT_A_POSITION)
        assert sum(instance) / len(instance) == near(sum(then) / len(then))


def test_the_exported_model_translates_plain_text_the_same(expected):
    found = observe.texts()
    assert [len(document) for document in found] == list(map(len, observe.DOCUMENTS))
    for document, then in zip(found, expected["texts"], strict=True):
        assert [[one["text"] for one in line] for line in document] == [[one["text"] for one in line] for line in then]
        for line, line_then in zip(document, then, strict=True):
            assert [one["score"] for one in line] == near([one["score"] for one in line_then])


def test_the_command_writes_the_same_translations(expected, tmp_path):
    """Instances in their places, sentences apart."""
    found = observe.generate(tmp_path)
    for instance, then in zip(found, expected["generate"], strict=True):
        scores = [[hypothesis.pop("score") for hypothesis in one["hypotheses"]] for one in (instance, then)]
        assert scores[0] == near(scores[1])
        assert instance == then


def test_contrastive_items_score_the_same(expected, tmp_path):
    found = observe.contrasts(tmp_path)
    assert len(found) == len(expected["contrasts"]) == 6
    for item, then in zip(found, expected["contrasts"], strict=True):
        assert item["id"] == then["id"]
        assert [item["correct"], *item["wrong"]] == near([then["correct"], *then["wrong"]])


def test_training_begins_the_same(expected, tmp_path):
    """Initial weights, batches, dropout and word dropout: six updates, then the validation loss, to the last digit
    that fairseq prints.
    """
    assert observe.losses(tmp_path) == pytest.approx(expected["losses"], abs=2e-3)
