"""Accuracy of what was translated: the reference has everything, its wrong variants nothing; ctxpro's rule."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from itertools import chain

import pytest

from gtransformer.cli.generative import main
from gtransformer.errors import UserError
from gtransformer.evaluation.contrastive import Item
from gtransformer.evaluation.generative import judge, outcome
from gtransformer.files import write_json
from gtransformer.preprocess.plain_text import bare

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
    assert {one.outcome for one in judge(ITEMS, TEXT, TEXT)} == {"right"}
    for item in ITEMS:
        for right, *wrong in ((item.correct, *item.wrong), *item.others):
            given = (item.correct, item.wrong, "", item.others)
            assert outcome(right, *given) == "right" and {outcome(text, *given) for text in wrong} == {"wrong"}
        assert outcome("", item.correct, item.wrong, "", item.others) == "neither"


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
def command(prepared, tmp_path, helpers):
    """command(items, texts by name, *options): exit status, and the result if one was written."""

    def run(items: list[Item], texts: dict, *options: str):
        helpers.write_documents(prepared / "text" / "test.de", TEXT)
        entries = [{key: value for key, value in vars(item).items() if value is not None} for item in items]
        write_json(tmp_path / "items.json", {"split": "test", "items": entries})
        for name, documents in texts.items():
            helpers.write_documents(tmp_path / name, documents)
        line = [str(prepared), f"--items={tmp_path / 'items.json'}", f"--output={tmp_path / 'out.json'}"]
        status = main([*line, *options, "--hypotheses", *(str(tmp_path / name) for name in texts)])
        return json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) if status == 0 else status

    return run


def test_the_command(command, capsys):
    result = command(ITEMS, {"same": TEXT, "worse": [TEXT[0], ["Na.", "Na."]]})
    same, worse = (result["systems"][name] for name in ("same", "worse"))
    assert same["total"]["accuracy"] == 100.0 and same["total"]["standard_error"] == 0
    assert (worse["total"]["right"], worse["total"]["neither"], worse["total"]["items"]) == (2, 2, 4)
    assert worse["total"]["standard_error"] > 0
    for key in ("distance", "distance_source", "distance_target"):
        cells = chain(*(rows.values() for rows in worse[f"by_phenomenon_and_{key}"].values()))
        assert sum(cell["right"] for cell in cells) == 2
    assert list(worse["by_distance_target"]) == ["1", "4-6", "7-12"]
    assert [one["solved"] for one in same["outcomes"]] == [True] * 4
    assert {"command", "commit", "versions", "rule", "items_sha256"} <= result.keys()
    shown = capsys.readouterr().out
    assert "100.0" in shown and "±0.0" not in shown


def test_of_other_sentences_it_tells(command, capsys):
    """Where numbers of sentences differ, an outcome may be that of another sentence."""
    joined = [[" ".join(TEXT[0])], TEXT[1]]
    result = command(ITEMS, {"same": TEXT, "joined": joined}, "--align=mwer")
    assert [one["misaligned_instances"] for one in result["systems"].values()] == [0, 1]
    printed = capsys.readouterr().out
    assert "note: joined: 1 instances have another number of sentences" in printed and "note: same" not in printed


def test_contrapro_is_converted_first(tmp_path, capsys):
    write_json(tmp_path / "items.json", [{"src segment": "It.", "ref segment": "Es."}])
    assert main([f"--items={tmp_path / 'items.json'}", f"--output={tmp_path / 'o'}", "--hypotheses", "x"]) == 1
    assert "gtransformer corpus convert contrapro" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"document": 2}, {"sentence": 3}, {"correct": "Nein."}])
def test_items_of_another_corpus(command, capsys, change):
    assert command([replace(ITEMS[0], **change)], {"same": TEXT}) == 1
    assert "item 0: " in capsys.readouterr().err


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
    assert bare(unicodedata.normalize("NFD", "„Größe“")) == bare("größe")
    generated = tmp_path / "generated.jsonl"
    generated.write_text('{"id": 0}\n' * 3, encoding="utf-8")
    assert main([*line[:-1], str(generated)]) == 1 and "plain text is needed" in capsys.readouterr().err
    assert main([*line, "--align=mwer"]) == 1 and "not aligned" in capsys.readouterr().err
    for entries, lines, options, said in (
        (CTXPRO, "Sie\n", [], "1 lines"),
        ([{**CTXPRO[0], "ante distance": -1}], "Sie\n", [], "entry 0 has no valid 'ante distance'"),
        ([{**CTXPRO[0], "ante distance": True}], "Sie\n", [], "entry 0 has no valid 'ante distance'"),
        ([{**CTXPRO[0], "expected": "!"}], "Sie\n", [], "entry 0 has no valid 'expected'"),
        (CTXPRO, "Sie\n", [str(tmp_path)], "needs no prepared corpus"),
        ({"split": "test", "items": []}, "Sie\n", [], "give the prepared corpus"),
    ):
        write_json(items, entries)
        text.write_text(lines, encoding="utf-8")
        assert main([*line, *options]) == 1 and said in capsys.readouterr().err


def test_ctxpro_from_documents(tmp_path, capsys):
    """Of a document the last sentence is judged; the entries may say how many sentences it has."""
    items, text, output = tmp_path / "ctxpro.json", tmp_path / "out.txt", tmp_path / "out.json"
    line = [f"--items={items}", f"--output={output}", "--hypotheses", str(text)]
    documents = "<d>\nDer da.\nSie\n<d>\nSie\nNein.\n<d>\nIhnen.\n"
    text.write_text(documents, encoding="utf-8")
    write_json(items, CTXPRO)
    assert main(line) == 0
    found = json.loads(output.read_text(encoding="utf-8"))["systems"]["out"]
    assert [one["output"] for one in found["outcomes"]] == ["Sie", "Nein.", "Ihnen."]
    assert [one["solved"] for one in found["outcomes"]] == [True, False, True]
    counted = [{**entry, "scored sentence": last} for entry, last in zip(CTXPRO, (1, 1, 0), strict=True)]
    write_json(items, counted)
    assert main(line) == 0
    assert json.loads(output.read_text(encoding="utf-8"))["systems"]["out"]["outcomes"] == found["outcomes"]
    for entries, lines, said in (
        (CTXPRO, documents + "<d>\nMehr.\n", "4 documents, but the suite has 3 entries"),
        (
            [{**counted[0], "scored sentence": 2}, *counted[1:]],
            documents,
            "document 0 has 2 sentences, its source 3",
        ),
        ([{**counted[0], "scored sentence": None}, *counted[1:]], documents, "no valid 'scored sentence'"),
    ):
        write_json(items, entries)
        text.write_text(lines, encoding="utf-8")
        capsys.readouterr()
        assert main(line) == 1 and said in capsys.readouterr().err


def test_items_without_groups_are_tested_over_documents(command):
    """Three better items of one document are one."""
    items = [replace(item, document=0, group=None) for item in ITEMS[:2]] + [replace(ITEMS[2], group=None)]
    worse = [["Na."] * len(TEXT[0]), TEXT[1]]
    test = command(items, {"worse": worse, "same": TEXT})["significance"]["same"]["total"]
    assert {key: test[key] for key in ("unit", "better", "worse", "equal")} == {
        "unit": "documents", "better": 1, "worse": 0, "equal": 1,
    }  # fmt: skip


def test_sign_tests_over_documents(tmp_path, capsys):
    """Against a count by hand: a film counts once, however many of its items differ."""
    items, output = tmp_path / "items.json", tmp_path / "out.json"
    films = "aabbccddeeffgg"
    write_json(
        items,
        [
            {"expected": "sie", "rule": "xy"[number % 2], "ante distance": number % 2, "document id": film}
            | {"wrong forms": ["er"]}
            for number, film in enumerate(films)
        ],
    )
    # Right items by film: a +2, b +1, c 0 (one each way), d +1, e +1, f +2, g -1.
    old, new = "00100100100011", "11111001111101"
    for name, right in (("old", old), ("new", new)):
        text = "".join("Sie.\n" if one == "1" else "Er.\n" for one in right)
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = [str(tmp_path / "old"), str(tmp_path / "new")]
    assert main([f"--items={items}", f"--output={output}", "--hypotheses", *files]) == 0
    result = json.loads(output.read_text(encoding="utf-8"))
    found = result["significance"]["new"]
    counts = {key: found["total"][key] for key in ("unit", "better", "worse", "equal")}
    assert counts == {"unit": "documents", "better": 5, "worse": 1, "equal": 1}
    assert found["total"]["p_value"] == pytest.approx(2 * (6 + 1) / 2**6)  # binomial: five or six of six, two sides
    # The first item of every film: a, c, f better, g worse. The second: a, b, d, e, f better, c worse.
    assert [found["by_rule"]["x"][key] for key in ("better", "worse", "equal")] == [3, 1, 3]
    assert [found["by_distance"]["1"][key] for key in ("better", "worse", "equal")] == [5, 1, 1]
    assert result["systems"]["old"]["total"]["wrong"] == old.count("0")
    assert "+5 -1 p 0.2188" in capsys.readouterr().out
