"""Accuracy of what was translated: the verdicts of ctxpro's own scorer."""

from __future__ import annotations

import string

import pytest
from sentence_splitter import SentenceSplitter

from gtransformer.evaluation.accuracy import (
    contains,
    judge,
    last_sentence,
    read_outputs,
)
from gtransformer.files import read_json, write_json
from gtransformer.preprocess.suites import expects_word, read_suite
from tests.support import SHARED, command, write_lines

main = command("generative")


CTXPRO = [
    {"expected": "sie", "rule": "gender", "ante distance": 1, "document id": "a", "segment id": 3},
    {"expected": "er", "rule": "gender", "ante distance": 4, "document id": "a", "segment id": 9},
    {
        "expected": "Ihnen",
        "rule": "formality",
        "ante distance": None,
        "document id": "b",
        "segment id": 1,
    },
]
DATA = SHARED / "data" / "ctxpro"


def official(line: str, expected: str, splitter: SentenceSplitter) -> bool:
    """The verdict of ctxpro's scorer, written anew."""
    sentences = splitter.split(text=line.strip())
    text = (sentences or [line])[-1].lower()
    kept = "".join(letter for letter in text if letter not in string.punctuation)
    return f" {expected.lower()} " in f" {kept} "


@pytest.fixture
def run(tmp_path, capsys):
    """run(entries, text): what the command prints, and its result."""

    def call(entries: list[dict], *texts: str):
        write_json(tmp_path / "items.json", entries)
        for number, text in enumerate(texts):
            (tmp_path / f"out{number}").write_text(text, encoding="utf-8")
        files = [str(tmp_path / f"out{number}") for number in range(len(texts))]
        line = [
            f"--items={tmp_path / 'items.json'}",
            "-t=de",
            f"--output={tmp_path / 'o.json'}",
            "--hypotheses",
        ]
        assert main([*line, *files]) == 0
        return capsys.readouterr().out, read_json(tmp_path / "o.json")

    return call


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("Der da. Ja, sie.\nEr kommt.<eos> Nein.\nIhnen.\n", ["Ja, sie.", "Nein.", "Ihnen."]),
        ("<d>\nDer da.\nSie\n<d>\nSie\nNein.\n<d>\nIhnen.\n", ["Sie", "Nein.", "Ihnen."]),
    ],
)
def test_only_the_last_sentence_counts(run, text, outputs):
    """Of a line or of a document."""
    items = run(CTXPRO, text)[1]["systems"]["out0"]["items"]
    assert [one["output"] for one in items] == outputs and [one["solved"] for one in items] == [
        True,
        False,
        True,
    ]


def test_languages_of_the_splitter():
    """Variants are their language's; abbreviations are known in it."""
    line = "Ja. Er ist z.B. Nr. 5."
    assert last_sentence("de_DE")(line) == last_sentence("de")(line) == "Er ist z.B. Nr. 5."


def test_ctxpro(run):
    """A word of its own, whatever its case and what stands around it; *er* in *der* is none."""
    found = run(CTXPRO, '"Sie", sagte Paul.\nDer da.\nWie geht\'s Ihnen?\n')[1]["systems"]["out0"]
    accuracies = {name: part["accuracy"] for name, part in found["by_phenomenon"].items()}
    assert accuracies == {"formality": 100.0, "gender": 50.0}
    assert {name: part["solved"] for name, part in found["by_distance"].items()} == {
        "1": 1,
        "4-6": 0,
    }
    assert list(found["by_phenomenon_and_distance"]["gender"]) == ["1", "4-6"]
    assert contains("Große Größe.", "gro\u0308ße") and not contains("Je t'aime.", "t'")


def test_contrapro(run):
    """The expected word is the one that differs in the candidates; documents may have any number of
    sentences.
    """
    known = {
        "src segment": "It barks.",
        "src pronoun": "it",
        "ref pronoun": "er",
        "ante distance": 1,
    }
    texts = {"ref segment": "Er bellt.", "errors": [{"contrastive": "Es bellt."}]}
    printed, result = run(
        [known | texts] * 2, "<d>\nDer Hund.\nEr bellt.\n<d>\nDas da.\nEs bellt.\n"
    )
    assert [one["solved"] for one in result["systems"]["out0"]["items"]] == [True, False]
    assert "it:er" in printed and result["reference"]["total"]["accuracy"] == 100


def test_the_reference_and_odd_entries(run):
    """An entry whose expected word is a dash is left out and named; the reference has an accuracy,
    too.
    """
    texts = ["Da ist sie.", "- Ja. - Nein.", "Ich helfe Ihnen."]
    entries = [entry | {"ref segment": text} for entry, text in zip(CTXPRO, texts, strict=True)]
    entries[1]["expected"] = "-"
    printed, result = run(entries, "Sie.\nEr.\nNein.\n")
    assert (
        result["left_out"] == [1]
        and "1 items without an expected word were left out: 1 ('-')" in printed
    )
    assert (
        result["systems"]["out0"]["total"]["solved"] == 1
        and result["systems"]["out0"]["total"]["items"] == 2
    )
    assert result["reference"]["total"]["accuracy"] == 100 and "(reference)" in printed


@pytest.mark.skipif(not DATA.is_dir(), reason="the suites are not part of the repository")
@pytest.mark.parametrize("name", ["auxiliary.en-pt.dev", "formality.en-de.devtest"])
def test_verdicts_equal_the_official_ones(name, tmp_path):
    """Lines with context, made of the references: those of the antecedent, or of the item before,
    and its own.
    """
    items, lang = read_suite([DATA / f"{name}.json.xz"]).items[:1000], name.split(".")[1][-2:]
    entries = read_json(DATA / f"{name}.json.xz")[:1000]
    before = [entry.get("ref ante segment") or "Ja, ja." for entry in entries]
    lines = [f"{one} {entry['ref segment']}" for one, entry in zip(before, entries, strict=True)]
    write_lines(tmp_path / "out", lines)
    splitter = SentenceSplitter(language=lang)
    expected = [
        official(line, entry["expected"], splitter)
        for line, entry in zip(lines, entries, strict=True)
    ]
    outputs = list(map(last_sentence(lang), read_outputs(tmp_path / "out", items)))
    found = [one.solved for one in judge(items, outputs)]
    assert (
        found == expected
        and all(expects_word(item.expected) for item in items)
        and 0.9 < sum(expected) / 1000 < 1
    )


def test_sign_tests_over_documents(run):
    """Against a count by hand: a film counts once, however many of its items differ."""
    entries = [
        {
            "expected": "sie",
            "rule": "xy"[number % 2],
            "ante distance": number % 2,
            "document id": film,
        }
        for number, film in enumerate("aabbccddeeffgg")
    ]
    # Right items by film: a +2, b +1, c 0 (one each way), d +1, e +1, f +2, g -1.
    old, new = "00100100100011", "11111001111101"
    texts = ["".join("Sie.\n" if one == "1" else "Er.\n" for one in right) for right in (old, new)]
    printed, result = run(entries, *texts)
    found = result["significance"]["out1"]
    counts = {key: found["total"][key] for key in ("better", "worse", "equal")}
    assert counts == {"better": 5, "worse": 1, "equal": 1}
    assert found["total"]["p_value"] == pytest.approx(
        2 * (6 + 1) / 2**6
    )  # binomial: five or six of six, two sides
    # The first item of every film: a, c, f better, g worse. The second: a, b, d, e, f better, c
    # worse.
    assert [found["by_phenomenon"]["x"][key] for key in ("better", "worse", "equal")] == [3, 1, 3]
    assert [found["by_distance"]["1"][key] for key in ("better", "worse", "equal")] == [5, 1, 1]
    assert "+5 -1 p 0.22" in printed
