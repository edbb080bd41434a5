"""Consistency of terms: worked examples of the lexicon, of the score, and of the command."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from gtransformer.cli.terms import main
from gtransformer.data.unspaced import separates_words
from gtransformer.errors import UserError
from gtransformer.evaluation.terms import COUNTS, Lexicon, consistency, differences, ratios, score_files, words_of

TRAINING = [
    ("open the folder", "den Ordner öffnen"),
    ("the folder is new", "der Ordner ist neu"),
    ("a new folder", "ein neues Verzeichnis"),
    ("a table", "eine Tabelle"),
    ("two tables", "zwei Tabellen"),
    ("the table is new", "die Tabelle ist neu"),
]
SOURCE = [
    ["Open the folder.", "The folder is here, and a table.", "A folder! A folder?", "This table."],
    ["A folder.", "Another one."],
]
ALIKE = [
    ["Den Ordner öffnen.", "Der Ordner ist hier, und eine Tabelle.", "Ein Ordner!", "Diese Tabelle."],
    ["Ein Verzeichnis.", "Noch eins."],
]
MIXED = [
    ["Den Ordner öffnen.", "Das Verzeichnis ist hier, und die Tabellen.", "Ein Ordner!", "Diese Tabelle."],
    ["Ein Ordner.", "Noch eins."],
]
MISSING = [["Machen.", "Hier.", "Ein Ordner!", "Diese."], ["Ja.", "Nein."]]


@pytest.fixture
def lexicon():
    return Lexicon(TRAINING, SOURCE, [ALIKE, MIXED, MISSING], 0.5)


def test_which_word_goes_with_which(lexicon):
    """folder is in 3 pairs, Ordner in 2, both in 2: Dice 4 / 5."""
    assert lexicon.sentences == 6
    assert lexicon.dice("folder", "ordner") == pytest.approx(4 / 5)
    assert lexicon.dice("folder", "verzeichnis") == pytest.approx(2 * 1 / (3 + 1))
    assert lexicon.dice("table", "tabelle") == 1.0
    assert lexicon.dice("folder", "tabelle") == lexicon.dice("folder", "unheard") == 0.0
    assert lexicon.translation("folder", "Das Verzeichnis, der ORDNER") == "ordner"
    assert lexicon.translation("folder", "Keine Ahnung.") is None is lexicon.translation("folder", "")
    assert lexicon.is_term("folder") and not Lexicon(TRAINING, SOURCE, [ALIKE], 0.49).is_term("folder")


def test_score_by_hand(lexicon):
    """Terms of the first document: folder in three sentences, table in two; of the second none, folder being once."""
    first = dict(zip(COUNTS, consistency(SOURCE, ALIKE, lexicon)[0], strict=True))
    assert first == {"ltcr": 2, "ltcr_stem": 2, "terms": 2, "occurrences": 5, "translated": 5}
    rows = consistency(SOURCE, MIXED, lexicon)
    # folder: Ordner, Verzeichnis, Ordner, one pair of three; table: die (Tabellen goes with tables alone), Tabelle.
    assert rows[0].tolist() == pytest.approx([1 / 3, 1 / 3, 2, 5, 5]) and not rows[1].any()
    assert ratios(rows.sum(axis=0)) == pytest.approx([1 / 6, 1 / 6])
    # What is not translated agrees with nothing, not even with another that is not.
    assert consistency(SOURCE, MISSING, lexicon)[0].tolist() == [0, 0, 2, 5, 1]
    none = consistency(SOURCE, ALIKE, Lexicon(TRAINING, SOURCE, [ALIKE], 0.1)).sum(axis=0)
    assert not none.any() and np.isnan(ratios(none)).all()


def test_inflected_forms_agree_by_stem():
    source = [["A table.", "The table.", "One table."]]
    target = [["Eine Tabelle.", "Der Tabellen.", "Eine Tafel."]]
    pairs = [("table", "Tabelle"), ("table", "Tabellen"), ("table", "Tafel"), *[("x", "y")] * 6]
    assert ratios(consistency(source, target, Lexicon(pairs, source, [target], 0.5))[0]) == pytest.approx([0, 1 / 3])


def test_signs_belong_to_their_letters():
    assert words_of("नई किताब, İstanbul 3") == ["नई", "किताब", "i\u0307stanbul"]


def test_where_a_word_stands_does_not_matter():
    """gizmo goes with dingsda and sofort in the same pairs; with more pairs, the better known one is taken."""
    pairs = [("gizmo", "das dingsda sofort"), ("x", "y"), ("gizmo here", "sofort dingsda"), ("one", "drei zwei")]
    source, target = [["gizmo works", "one gizmo"]], [["sofort, dingsda", "dingsda sofort"]]
    lexicon = Lexicon(pairs, source, [target], 0.5)
    assert {lexicon.translation("gizmo", sentence) for sentence in target[0]} == {"dingsda"}
    assert ratios(consistency(source, target, lexicon)[0]) == pytest.approx([1, 1])
    # Dice 2 * 1 / (2 + 2) and 2 * 2 / (2 + 6).
    uneven = [("gizmo", "apfel birne"), ("gizmo", "birne"), ("x", "apfel"), *[("x", "birne")] * 4]
    lexicon = Lexicon(uneven, source, [[["apfel birne"]]], 0.5)
    assert lexicon.dice("gizmo", "apfel") == lexicon.dice("gizmo", "birne") == 0.5
    assert lexicon.translation("gizmo", "apfel birne") == "birne"


def test_words_that_are_no_terms_are_not_counted_with_others(lexicon):
    """Which saves most of the time; what is a term is as before. A word that the lexicon lacks is none."""
    few = Lexicon(TRAINING, SOURCE, [ALIKE, MIXED, MISSING], 0.4)
    assert few.dice("folder", "ordner") == 0 < lexicon.dice("folder", "ordner")
    assert few.dice("table", "tabelle") == lexicon.dice("table", "tabelle") > 0
    assert not few.is_term("folder") and few.is_term("table") and not few.is_term("unheard")


def test_documents_are_exchanged():
    """Ten documents: all better by as much, so significant; by chance, so not; documents without terms say nothing."""
    draw, zero = np.random.default_rng(1), np.zeros(10)
    low = np.stack([draw.uniform(0, 5, 10), draw.uniform(0, 5, 10), zero + 10, zero + 30, zero + 30], axis=1)
    found = differences(low, low + [3, 0, 0, 0, 0])
    assert found["ltcr"].p_value == 2 / 2**10 and found["ltcr_stem"].p_value == 1
    assert found["ltcr"].difference == pytest.approx(30) and found["ltcr"].interval == pytest.approx((30, 30))
    gains = draw.normal(0, 3, 10)
    noisy = differences(low, low + np.stack([gains, *[zero] * 4], axis=1))["ltcr"]
    # The terms of each document are as many, so that a difference is a sum of gains with signs.
    larger = [abs(np.dot(signs, gains)) >= abs(gains.sum()) - 1e-9 for signs in itertools.product([-1, 1], repeat=10)]
    assert noisy.p_value == sum(larger) / 2**10 and 0.01 < noisy.p_value < 1
    empty = np.zeros((30, 5))
    assert (
        differences(np.vstack([low, empty]), np.vstack([low + np.stack([gains, *[zero] * 4], axis=1), empty]))["ltcr"]
        == noisy
    )
    few = differences(np.vstack([low[:5], empty]), np.vstack([low[:5] + [3, 0, 0, 0, 0], empty]))["ltcr"]
    assert few.p_value is None and few.units == 5


@pytest.fixture
def files(tmp_path):
    """Plain text by name: documents opened by ``<d>``."""

    def write(name, documents):
        lines = [line for document in documents for line in ("<d>", *document)]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(tmp_path / name)

    sides = list(zip(*TRAINING, strict=True))
    return {
        "source": write("source", SOURCE), "alike": write("alike", ALIKE), "mixed": write("mixed", MIXED),
        "training": [write("train.en", [sides[0]]), write("train.de", [sides[1]])], "short": write("short", SOURCE[1:]),
    }  # fmt: skip


def test_command(files, tmp_path, capsys):
    given = ["--source", files["source"], "--reference", files["alike"], "--max-share", "0.6"]
    line = [*given, "--hypotheses", f"a={files['mixed']}", f"b={files['alike']}", "--training", *files["training"]]
    assert main([*line, "--output", str(tmp_path / "out.json")]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["lexicon_sentences"] == 6 and result["documents"] == 2  # of the training text alone
    assert result["systems"]["b"] == result["reference"] and result["reference"]["ltcr"] == 100.0
    assert result["systems"]["a"]["ltcr"] < 100 and result["systems"]["a"]["terms"] == 2
    assert set(result["significance"]) == {"b"}
    assert result["significance"]["b"]["ltcr"]["p_value"] is None  # of two documents
    printed = capsys.readouterr().out
    assert "too few documents" in printed and "p two-sided" in printed
    lines = ["<d>", *["我的网络今天又坏了。"] * 4, "<d>", *["网络坏了两天。"] * 2]
    (tmp_path / "zh").write_text("\n".join(lines), encoding="utf-8")
    segmented = "网络 今天 很 快 。", "ネットワーク は 今日 速い", "เครือข่าย วันนี้ เร็ว มาก", "국회에서 法案이 통과되었다"
    assert all(separates_words([one] * 3 + ["OK"]) for one in segmented)
    with pytest.raises(UserError, match="zh: terms are words, which blanks must separate"):
        score_files(Path(files["source"]), tmp_path / "zh", {"a": tmp_path / "zh"}, None)
    with pytest.raises(UserError, match="a system is called 'reference'"):
        score_files(Path(files["source"]), Path(files["alike"]), {"reference": Path(files["mixed"])}, None)
    with pytest.raises(UserError, match="short: no document has a term"):
        score_files(*[Path(files["short"])] * 2, {"a": Path(files["short"])}, None)
    assert "LTCR by stem" in printed and "reference" in printed and "lexicon: 6 sentence pairs" in printed


def test_who_is_consistent_with_another_word_than_the_reference(tmp_path):
    """With the training text as the lexicon; of source and reference alone, its word would be none."""

    def write(name, *lines):
        (tmp_path / name).write_text("\n".join(("<d>", *lines)) + "\n", encoding="utf-8")
        return tmp_path / name

    source, reference = write("s", "The gadget.", "A gadget."), write("r", "Das Gerät.", "Ein Gerät.")
    system = {"a": write("a", "Der Apparat.", "Ein Apparat.")}
    training = write("en", "gadget", "gadget", "x", "x"), write("de", "Gerät", "Apparat", "y", "y")
    found = score_files(source, reference, system, training, 0.5)
    assert found["systems"]["a"]["ltcr"] == found["reference"]["ltcr"] == 100.0 and found["lexicon_sentences"] == 4
    found = score_files(source, reference, system, None, 1.0)
    assert found["systems"]["a"]["ltcr"] == 0.0 and found["reference"]["ltcr"] == 100.0
