"""Accuracy of what was translated: the reference has everything, its wrong variants nothing; ctxpro's rule."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from itertools import chain

import pytest

from gtransformer.cli.generative import main
from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.evaluation.contrastive import Item, read_items
from gtransformer.evaluation.generative import judge, outcome
from gtransformer.evaluation.suites.ctxpro import bare
from gtransformer.files import write_json
from gtransformer.lab.demo.corpus import write_splits
from gtransformer.lab.demo.reach_corpus import context_items


@pytest.fixture(scope="module")
def letters():
    """Two letters of the demo's language."""
    return write_splits({"test": 2}, seed=3)["test"]


@pytest.fixture(scope="module")
def items(letters, tmp_path_factory) -> list[Item]:
    """All their sentences that need context."""
    path = tmp_path_factory.mktemp("items") / "items.json"
    write_json(path, context_items(letters))
    return read_items(path)[1]


def test_the_reference_is_right_and_every_variant_wrong(letters, items):
    references = [[line.de for line in letter.lines] for letter in letters]
    assert {item.phenomenon for item in items} == {"pronoun", "address", "ambiguity"} and len(items) > 60
    assert {one.outcome for one in judge(items, references, references)} == {"right"}
    for item in items:
        assert {outcome(text, item.correct, item.wrong) for text in item.wrong} == {"wrong"}
        assert outcome("", item.correct, item.wrong) == "neither"


def test_items_in_another_form_of_unicode(letters, tmp_path):
    """The corpus has been brought into one form; a suite may come in another."""
    data = json.loads(json.dumps(context_items(letters)))
    path = tmp_path / "items.json"
    path.write_text(unicodedata.normalize("NFD", json.dumps(data, ensure_ascii=False)), encoding="utf-8")
    references = [[line.de for line in letter.lines] for letter in letters]
    assert not path.read_text(encoding="utf-8").isascii()
    assert {one.outcome for one in judge(read_items(path)[1], references, references)} == {"right"}
    assert bare(unicodedata.normalize("NFD", "„Größe“")) == bare("größe")


def test_items_and_their_distances(letters, items):
    """Every sentence that has a cue, and the distance to it; on the target side another that had it may be nearer."""
    assert len(items) == sum(len(line.cues) for letter in letters for line in letter.lines)
    for item in items:
        lines = letters[item.document].lines
        cue = lines[item.sentence].cues[item.phenomenon]
        same = [i for i in range(item.sentence) if lines[i].cues.get(item.phenomenon) == cue]
        assert (item.distance_source, item.group) == (item.sentence - cue, item.document)
        assert item.distance_target == item.distance == item.sentence - max([cue, *same])


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Was machst du heute?", "right"),
        ("Heute machst du was ganz anderes", "right"),
        ("was machen sie heute", "wrong"),
        ("Was machst Sie heute?", "neither"),
        ("Was ist heute?", "neither"),
        ("Was machst du heute, machst du?", "neither"),
    ],
)
def test_forms_decide_and_nothing_else(output, expected):
    assert outcome(output, "Was machst du heute?", ["Was machen Sie heute?"]) == expected


def test_a_form_that_the_sentence_has_twice():
    """*sie* is the thing; the reader's *Sie* stands in right and wrong alike."""
    wrong = ["Haben Sie ihn gesehen?", "Haben Sie es gesehen?"]
    given = ["Haben Sie sie gesehen?", "Haben Sie ihn gesehen?", "Haben Sie gesehen?"]
    assert [outcome(text, given[0], wrong) for text in given] == ["right", "wrong", "neither"]
    with pytest.raises(UserError, match="have the same words; leave this item out"):
        outcome("", "Ich kenne Sie.", ["Ich kenne sie."])


def test_two_phenomena_in_one_sentence(letters, items):
    """Each is judged by itself, whatever the other one became; a sentence without the pronoun is not right."""
    you = ("Haben Sie sie gesehen?", "Haben Sie ihn gesehen?", "Haben Sie es gesehen?")
    thou = ("Hast du sie gesehen?", "Hast du ihn gesehen?", "Hast du es gesehen?")
    for text, expected in (
        *[(row[0], "right") for row in (you, thou)],
        *[(text, "wrong") for row in (you, thou) for text in row[1:]],
        ("Haben Sie gesehen?", "neither"),
        ("Hast du gesehen?", "neither"),
    ):
        assert outcome(text, thou[0], thou[1:], others=[you]) == expected, text
        assert outcome(text, you[0], you[1:], others=[thou]) == expected, text
    assert outcome("Brauchst du es?", "Brauchen Sie es?", ["Brauchen Sie sie?"], others=[
        ("Brauchst du es?", "Brauchst du sie?")
    ]) == "right"  # fmt: skip
    mixed = [item for item in items if item.others]
    lines = [letters[item.document].lines[item.sentence] for item in mixed]
    assert all(len(line.cues) > 1 for line in lines) and {item.phenomenon for item in mixed} >= {"pronoun", "address"}
    for item in mixed:
        for right, *wrong in item.others:
            given = (item.correct, item.wrong, "", item.others)
            assert outcome(right, *given) == "right" and {outcome(text, *given) for text in wrong} == {"wrong"}


@pytest.fixture
def corpus(letters, tmp_path, helpers):
    """The letters as a prepared split, an instance each; the items; the reference and a worse translation."""
    tmp_path = tmp_path / "letters"
    prepared, texts = tmp_path / "prepared", [[line.de for line in letter.lines] for letter in letters]
    helpers.write_documents(prepared / "text" / "test.de", texts)
    (prepared / "bin").mkdir()
    places = [(number, 0, len(text)) for number, text in enumerate(texts)]
    Sidecar("test", "en", "de", 2, places).save(prepared / "bin" / "test.en-de.instances.json")
    write_json(tmp_path / "items.json", context_items(letters))
    helpers.write_documents(tmp_path / "same.txt", texts)
    helpers.write_documents(tmp_path / "worse.txt", [texts[0], ["Na."] * len(texts[1])])
    return tmp_path


def test_the_command(corpus, items, capsys):
    line = [str(corpus / "prepared"), f"--items={corpus / 'items.json'}", f"--output={corpus / 'out.json'}"]
    assert main([*line, "--hypotheses", str(corpus / "same.txt"), str(corpus / "worse.txt")]) == 0
    result, shown = json.loads((corpus / "out.json").read_text(encoding="utf-8")), capsys.readouterr().out
    same, worse = (result["systems"][name] for name in ("same", "worse"))
    assert same["total"]["accuracy"] == 100.0 and same["total"]["standard_error"] == 0
    first = sum(item.document == 0 for item in items)
    total = worse["total"]
    assert (total["right"], total["neither"], total["items"]) == (first, len(items) - first, len(items))
    assert total["standard_error"] > 0 and "100.0" in shown and "±0.0" not in shown
    for key in ("distance", "distance_source", "distance_target"):
        cells = chain(*(rows.values() for rows in worse[f"by_phenomenon_and_{key}"].values()))
        assert sum(cell["right"] for cell in cells) == first
    assert [one["solved"] for one in same["outcomes"]] == [True] * len(items)
    assert {"command", "commit", "versions", "rule", "items_sha256"} <= result.keys()


def test_a_negative_document(letters, items):
    references = [[line.de for line in letter.lines] for letter in letters]
    last = next(item for item in items if item.document == len(letters) - 1)
    with pytest.raises(UserError, match="use the items that belong to the corpus"):
        judge([replace(last, document=-1)], references, references)


def test_items_of_another_corpus(prepared, hypotheses, corpus, capsys):
    line = [str(prepared), f"--items={corpus / 'items.json'}", f"--output={corpus / 'out.json'}"]
    assert main([*line, "--hypotheses", str(hypotheses)]) == 1
    assert "use the items that belong to the corpus" in capsys.readouterr().err
    assert main([*line[1:], "--hypotheses", str(hypotheses)]) == 1
    assert "give the prepared corpus whose sentences these items are" in capsys.readouterr().err


CTXPRO = [
    {"expected": "sie", "rule": "gender", "ante distance": 1, "document id": "a", "segment id": 3},
    {"expected": "er", "rule": "gender", "ante distance": 4, "document id": "a", "segment id": 9},
    {"expected": "Ihnen", "rule": "formality", "ante distance": None, "document id": "b", "segment id": 1},
]


def test_ctxpro(tmp_path, capsys):
    """A word of its own, whatever its case and what stands beside it; *er* in *der* is none."""
    items, text, output = tmp_path / "ctxpro.json", tmp_path / "out.txt", tmp_path / "out.json"
    write_json(items, CTXPRO)
    text.write_text("„Sie“, sagte Paul.\nDer da.\nWie geht's Ihnen?\n", encoding="utf-8")
    line = [f"--items={items}", f"--output={output}", "--hypotheses", str(text)]
    assert main(line) == 0
    found = json.loads(output.read_text(encoding="utf-8"))["systems"]["out"]
    assert {name: part["accuracy"] for name, part in found["by_rule"].items()} == {"formality": 100.0, "gender": 50.0}
    assert {name: part["right"] for name, part in found["by_distance"].items()} == {"1": 1, "4-6": 0}
    assert list(found["by_rule_and_distance"]) == ["gender"] and bare("„Wie geht's?“") == "wie gehts"
    text.write_text("Sie\n", encoding="utf-8")
    assert main(line) == 1 and "1 lines, but the suite has 3 entries" in capsys.readouterr().err
    write_json(items, [{**CTXPRO[0], "ante distance": -1}])
    assert main(line) == 1 and "entry 0 has no valid 'ante distance'" in capsys.readouterr().err
    write_json(items, [{**CTXPRO[0], "expected": "!"}])
    assert main(line) == 1 and "entry 0 has no valid 'expected'" in capsys.readouterr().err
    assert main([*line, str(tmp_path)]) == 1 and "leave it out" in capsys.readouterr().err
