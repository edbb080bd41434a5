"""The items of the demonstration's language: its references are right, its variants wrong, distances those of cues."""

from __future__ import annotations

import json
import unicodedata

import pytest

from gtransformer.files import write_json
from gtransformer.lab.demo.corpus import write_splits
from gtransformer.lab.demo.reach_corpus import context_items
from gtransformer.lab.items.items import read_items
from gtransformer.lab.items.written import judge, outcome

LETTERS = write_splits({"test": 4}, seed=3)["test"]
REFERENCES = [[line.de for line in letter.lines] for letter in LETTERS]


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    """All sentences that need context."""
    path = tmp_path_factory.mktemp("items") / "items.json"
    write_json(path, context_items(LETTERS))
    return read_items(path)[1]


def test_references_are_right_and_variants_wrong(items):
    assert {item.phenomenon for item in items} == {"pronoun", "address", "ambiguity"} and len(items) > 100
    assert set(judge(items, REFERENCES, REFERENCES)) == {"right"}
    for item in items:
        assert {outcome(text, item.correct, item.wrong) for text in item.wrong} == {"wrong"}
        for right, *wrong in item.others:  # two phenomena in one sentence
            given = (item.correct, item.wrong, item.others)
            assert outcome(right, *given) == "right" and {outcome(text, *given) for text in wrong} == {"wrong"}
    assert any(item.others for item in items)


def test_distances(items):
    """To the sentence with the cue; on the target side another that had it may be nearer."""
    assert len(items) == sum(len(line.cues) for letter in LETTERS for line in letter.lines)
    for item in items:
        lines = LETTERS[item.document].lines
        cue = lines[item.sentence].cues[item.phenomenon]
        same = [i for i in range(item.sentence) if lines[i].cues.get(item.phenomenon) == cue]
        assert (item.distance_source, item.group) == (item.sentence - cue, item.document)
        assert item.distance_target == item.distance == item.sentence - max([cue, *same])


def test_another_form_of_unicode(tmp_path):
    """The corpus has been brought into one form; a suite may come in another."""
    path = tmp_path / "items.json"
    text = json.dumps(context_items(LETTERS), ensure_ascii=False)
    path.write_text(unicodedata.normalize("NFD", text), encoding="utf-8")
    assert not path.read_text(encoding="utf-8").isascii()
    assert set(judge(read_items(path)[1], REFERENCES, REFERENCES)) == {"right"}
