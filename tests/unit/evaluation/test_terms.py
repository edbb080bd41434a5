"""Consistency of terms: worked examples of the lexicon, of the score, and of the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gtransformer.cli.terms import main
from gtransformer.errors import UserError
from gtransformer.evaluation.term_files import score_files
from gtransformer.evaluation.terms import COUNTS, consistency, make_lexicon, paired_bootstrap, ratios

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
    return make_lexicon(TRAINING, SOURCE, [ALIKE, MIXED, MISSING])


def test_which_word_goes_with_which(lexicon):
    """folder is in 3 pairs, Ordner in 2, both in 2: Dice 4 / 5."""
    assert lexicon.sentences == 6
    assert lexicon.dice("folder", "ordner") == pytest.approx(4 / 5)
    assert lexicon.dice("folder", "verzeichnis") == pytest.approx(2 * 1 / (3 + 1))
    assert lexicon.dice("table", "tabelle") == 1.0
    assert lexicon.dice("folder", "tabelle") == lexicon.dice("folder", "unheard") == 0.0
    assert lexicon.translation("folder", "Das Verzeichnis, der ORDNER") == "ordner"
    assert lexicon.translation("folder", "Keine Ahnung.") is None is lexicon.translation("folder", "")
    assert lexicon.is_term("folder", 0.5) and not lexicon.is_term("folder", 0.49)


def test_score_by_hand(lexicon):
    """Terms of the first document: folder in three sentences, table in two; of the second none, folder being once."""
    first = dict(zip(COUNTS, consistency(SOURCE, ALIKE, lexicon, 0.5)[0], strict=True))
    assert first == {"ltcr": 2, "ltcr_stem": 2, "terms": 2, "occurrences": 5, "translated": 5}
    rows = consistency(SOURCE, MIXED, lexicon, 0.5)
    # folder: Ordner, Verzeichnis, Ordner, one pair of three; table: die (Tabellen goes with tables alone), Tabelle.
    assert rows[0].tolist() == pytest.approx([1 / 3, 1 / 3, 2, 5, 5]) and not rows[1].any()
    assert ratios(rows) == pytest.approx([1 / 6, 1 / 6])
    # What is not translated agrees with nothing, not even with another that is not.
    assert consistency(SOURCE, MISSING, lexicon, 0.5)[0].tolist() == [0, 0, 2, 5, 1]
    assert not consistency(SOURCE, ALIKE, lexicon, 0.1).any()
    assert np.isnan(ratios(consistency(SOURCE, ALIKE, lexicon, 0.1))).all()


def test_inflected_forms_agree_by_stem():
    source = [["A table.", "The table.", "One table."]]
    target = [["Eine Tabelle.", "Der Tabellen.", "Eine Tafel."]]
    pairs = [("table", "Tabelle"), ("table", "Tabellen"), ("table", "Tafel"), *[("x", "y")] * 6]
    assert ratios(consistency(source, target, make_lexicon(pairs, source, [target]), 0.5)) == pytest.approx([0, 1 / 3])


def test_documents_are_drawn():
    """Ten documents: all better by as much, so significant; by chance, so not; and none of a draw without terms."""
    draw, zero = np.random.default_rng(1), np.zeros(10)
    low = np.stack([draw.uniform(0, 5, 10), draw.uniform(0, 5, 10), zero + 10, zero + 30, zero + 30], axis=1)
    assert paired_bootstrap(low, low + [3, 0, 0, 0, 0])[0] == pytest.approx(1 / 1001)
    noisy = low + np.stack([draw.normal(0, 3, 10), *[zero] * 4], axis=1)
    assert 0.01 < paired_bootstrap(low, noisy)[0] < 1
    low[1:, 2] = 0
    assert paired_bootstrap(low, low).tolist() == [1, 1]
    assert paired_bootstrap(low, low + [1, 0, 0, 0, 0])[1] == 1


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
    assert result["lexicon_sentences"] == 12 and result["documents"] == 2
    assert result["systems"]["b"] == result["reference"] and result["reference"]["ltcr"] == 100.0
    assert result["systems"]["a"]["ltcr"] < 100 and result["systems"]["a"]["terms"] == 2
    assert set(result["significance"]) == {"b"} and 0 < result["significance"]["b"]["ltcr"] <= 1
    printed = capsys.readouterr().out
    assert "LTCR by stem" in printed and "reference" in printed and "lexicon: 12 sentence pairs" in printed


def test_what_cannot_be(files, tmp_path):
    source, short, plain = Path(files["source"]), Path(files["short"]), tmp_path / "plain"
    plain.write_text("One sentence.\n")
    for given, systems, message in (
        (source, {"a": tmp_path / "x.jsonl"}, "plain text is needed; give the PREFIX.txt"),
        (plain, {"a": plain}, "plain: terms are compared within documents; put a line <d> before each"),
        (short, {"a": short}, "short: no document has a term"),
    ):
        with pytest.raises(UserError, match=message) as error:
            score_files(given, given, systems, None)
        assert "\n" not in str(error.value)
