"""Accuracy of what was translated: the reference has everything, its wrong variants nothing."""

from __future__ import annotations

import json

import pytest

from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.lab.cli.items import main
from gtransformer.lab.items.items import Item
from gtransformer.lab.items.written import judge, outcome
from tests.core.evaluation.conftest import write_documents, write_prepared

YOU = ("Haben Sie sie gesehen?", "Haben Sie ihn gesehen?", "Haben Sie es gesehen?")
THOU = ("Hast du sie gesehen?", "Hast du ihn gesehen?", "Hast du es gesehen?")
TEXT = [["Das Haus ist alt.", "Es ist auch groß.", "Du kennst es gut."], ["Ich sehe den Hund.", THOU[0]]]
ITEMS = [
    Item(0, "pronoun", "", 0, 1, 1, TEXT[0][1], ("Er ist auch groß.", "Sie ist auch groß."), 1, 1, 0),
    Item(1, "address", "", 0, 2, 2, TEXT[0][2], ("Sie kennen es gut.",), 2, 5, 0),
    Item(2, "pronoun", "", 1, 1, 1, THOU[0], THOU[1:], 1, 1, 1, (YOU,)),
    Item(3, "address", "", 1, 1, 7, THOU[0], YOU[:1], 7, 7, 1, ((YOU[1], THOU[1]),)),
]


def test_the_reference_is_right_and_every_variant_wrong():
    assert set(judge(ITEMS, TEXT, TEXT)) == {"right"}
    for item in ITEMS:
        for right, *wrong in ((item.correct, *item.wrong), *item.others):
            given = (item.correct, item.wrong, item.others)
            assert outcome(right, *given) == "right" and {outcome(text, *given) for text in wrong} == {"wrong"}
        assert outcome("", item.correct, item.wrong, item.others) == "neither"


THING = ("Haben Sie sie gesehen?", "Haben Sie ihn gesehen?", "Haben Sie es gesehen?")  # *Sie* stands in all
WHAT = ("Was machst du heute?", "Was machen Sie heute?")


@pytest.mark.parametrize(
    ("row", "output", "expected"),
    [
        (WHAT, WHAT[0], "right"),
        (WHAT, "Heute machst du was ganz anderes", "right"),
        (WHAT, "was machen sie heute", "wrong"),
        (WHAT, "Was machst Sie heute?", "neither"),
        (WHAT, "Was ist heute?", "neither"),
        (WHAT, "Was machst du heute, machst du?", "neither"),
        (THING, THING[0], "right"),
        (THING, THING[1], "wrong"),
        (THING, "Haben Sie gesehen?", "neither"),
        (("यह अच्छा है", "यह अच्छी है"), "वह अच्छी है", "wrong"),
    ],
)
def test_forms_decide_and_nothing_else(row, output, expected):
    assert outcome(output, row[0], row[1:]) == expected


def test_two_phenomena_in_one_sentence():
    """Each is judged by itself, whatever the other one became; a sentence without the pronoun is not right."""
    for text in ("Haben Sie gesehen?", "Hast du gesehen?"):
        assert outcome(text, THOU[0], THOU[1:], others=[YOU]) == "neither"
        assert outcome(text, YOU[0], YOU[1:], others=[THOU]) == "neither"
    others = [("Brauchst du es?", "Brauchst du sie?")]
    assert outcome("Brauchst du es?", "Brauchen Sie es?", ["Brauchen Sie sie?"], others=others) == "right"
    with pytest.raises(UserError, match="same words"):
        outcome("", "Ich kenne Sie.", ["Ich kenne sie."])


@pytest.fixture
def command(tmp_path):
    """command(items, documents): exit status, and the result if one was written."""
    prepared = write_prepared(tmp_path / "prepared")
    write_documents(prepared / "text" / "test.de", TEXT)

    def run(items: list[Item], documents: list[list[str]], *options: str):
        entries = [{key: value for key, value in vars(item).items() if value is not None} for item in items]
        write_json(tmp_path / "items.json", {"split": "test", "items": entries})
        write_documents(tmp_path / "text", documents)
        line = [str(prepared), f"--items={tmp_path / 'items.json'}", f"--output={tmp_path / 'out.json'}"]
        status = main([*line, *options, "--hypotheses", str(tmp_path / "text")])
        return json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) if status == 0 else status

    return run


def test_the_command(command, capsys):
    same, worse = command(ITEMS, TEXT), command(ITEMS, [TEXT[0], ["Na.", "Na."]])
    assert same["total"]["accuracy"] == 100.0 and same["total"]["standard_error"] == 0
    assert (worse["total"]["right"], worse["total"]["neither"], worse["total"]["items"]) == (2, 2, 4)
    assert worse["total"]["standard_error"] > 0
    assert list(worse["by_distance_target"]) == ["1", "4-6", "7-12"]
    assert [one["solved"] for one in same["items"]] == [True] * 4
    shown = capsys.readouterr().out
    assert "100.0" in shown and "±0.0" not in shown
