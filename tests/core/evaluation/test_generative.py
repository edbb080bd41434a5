"""Accuracy of what was translated: ctxpro's rule."""

from __future__ import annotations

import json
import unicodedata

import pytest

from gtransformer.cli.generative import main
from gtransformer.files import write_json
from gtransformer.preprocess.plain_text import bare

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
    assert {name: part["solved"] for name, part in found["by_distance"].items()} == {"1": 1, "4-6": 0}
    assert list(found["by_rule_and_distance"]["gender"]) == ["1", "4-6"] and bare("„Wie geht's?“") == "wie gehts"
    assert bare(unicodedata.normalize("NFD", "„Größe“")) == bare("größe")
    text.write_text("Sie\n", encoding="utf-8")
    assert main(line) == 1 and "1 lines" in capsys.readouterr().err


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
    assert [one["right"] for one in found["outcomes"]] == [True, False, True]
    counted = [{**entry, "scored sentence": last} for entry, last in zip(CTXPRO, (1, 1, 0), strict=True)]
    write_json(items, counted)
    assert main(line) == 0
    assert json.loads(output.read_text(encoding="utf-8"))["systems"]["out"]["outcomes"] == found["outcomes"]
    for entries, lines, said in (
        (CTXPRO, documents + "<d>\nMehr.\n", "4 lines or documents, but the suite has 3 entries"),
        ([{**counted[0], "scored sentence": 2}, *counted[1:]], documents, "document 0 has 2 sentences, its source 3"),
    ):
        write_json(items, entries)
        text.write_text(lines, encoding="utf-8")
        capsys.readouterr()
        assert main(line) == 1 and said in capsys.readouterr().err


def test_sign_tests_over_documents(tmp_path, capsys):
    """Against a count by hand: a film counts once, however many of its items differ."""
    items, output = tmp_path / "items.json", tmp_path / "out.json"
    films = "aabbccddeeffgg"
    write_json(
        items,
        [
            {"expected": "sie", "rule": "xy"[number % 2], "ante distance": number % 2, "document id": film}
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
    counts = {key: found["total"][key] for key in ("better", "worse", "equal")}
    assert counts == {"better": 5, "worse": 1, "equal": 1}
    assert found["total"]["p_value"] == pytest.approx(2 * (6 + 1) / 2**6)  # binomial: five or six of six, two sides
    # The first item of every film: a, c, f better, g worse. The second: a, b, d, e, f better, c worse.
    assert [found["by_rule"]["x"][key] for key in ("better", "worse", "equal")] == [3, 1, 3]
    assert [found["by_distance"]["1"][key] for key in ("better", "worse", "equal")] == [5, 1, 1]
    assert "+5 -1 p 0.22" in capsys.readouterr().out
