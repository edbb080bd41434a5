"""ctxpro (Wicks and Post 2023): sentences of real text whose translation holds an expected word if context was used.

A JSON list with an entry a sentence: ``expected``, ``rule``, ``ante distance``, ``document id``, ``segment id``. A
translation is right if it holds `` expected ``, lower-cased, punctuation taken off; there are no wrong answers.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.generative import NEITHER, RIGHT, Judged
from gtransformer.files import read_json, read_lines
from gtransformer.preprocess.unicode_forms import one_form


@dataclass(frozen=True)
class Expectation:
    """An entry: the word, what it stands for, its document, and sentences back to the antecedent if that is known."""

    id: int
    expected: str
    rule: str
    document: str
    distance: int | None


def is_ctxpro(data: object) -> bool:
    """Whether this is the content of a file of ctxpro."""
    return (
        isinstance(data, list) and bool(data) and isinstance(data[0], dict) and {"expected", "rule"} <= data[0].keys()
    )


def read_expectations(path: Path) -> list[Expectation]:
    """The entries of a file; UserError, naming the entry, where it is none."""
    data = read_json(path)
    if not is_ctxpro(data):
        raise UserError(f"{path}: no suite of ctxpro (a list of entries with 'expected' and 'rule')")
    found = []
    for number, entry in enumerate(data):
        for key, kinds in (("expected", str), ("rule", str), ("ante distance", int | None)):
            value = entry.get(key) if isinstance(entry, dict) else None
            empty = key == "expected" and isinstance(value, str) and not bare(value)
            if not isinstance(value, kinds) or empty or (isinstance(value, int) and value < 0):
                raise UserError(f"{path}: entry {number} has no valid {key!r}; correct it")
        document = str(entry.get("document id", number))
        found.append(Expectation(number, entry["expected"], entry["rule"], document, entry.get("ante distance")))
    return found


def bare(text: str) -> str:
    """Lower-cased, without punctuation, single blanks between the words."""
    kept = "".join(letter for letter in one_form(text).lower() if not unicodedata.category(letter).startswith("P"))
    return " ".join(kept.split())


def judge_lines(expectations: Sequence[Expectation], hypotheses: Path) -> list[Judged]:
    """The outcomes in a file with the translation of each entry's sentence on a line of its own.

    Entries of one document are a group. Raises UserError where there are not as many lines as entries.
    """
    lines = list(read_lines(hypotheses))
    if len(lines) != len(expectations):
        raise UserError(
            f"{hypotheses}: {len(lines)} lines, but the suite has {len(expectations)} entries; write the translation "
            "of each entry's sentence on a line"
        )
    judged = []
    for one, line in zip(expectations, lines, strict=True):
        found = RIGHT if f" {bare(one.expected)} " in f" {bare(line)} " else NEITHER
        distances = {} if one.distance is None else {"distance": one.distance}
        judged.append(Judged(one.id, one.rule, found, line, distances, one.document))
    return judged
