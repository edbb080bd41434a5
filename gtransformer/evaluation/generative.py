"""Generative accuracy: does a system's translation contain the form that the context requires?

The suites are ctxpro's (Wicks and Post 2023), sentences of real text: JSON lists with an entry per sentence
(``expected``, ``rule``, ``ante distance``, ``document id``). A translation is right if it contains the expected word,
lower-cased and without punctuation. It is a line, or the last sentence of a translated document, which is the sentence
with its context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from scipy import stats

from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.accuracy import standard_error
from gtransformer.evaluation.significance import MIN_UNITS
from gtransformer.preprocess.ctxpro import SCORED, film
from gtransformer.preprocess.plain_text import bare, divided, read_sentences


@dataclass(frozen=True)
class Judged:
    """A system's translation of an item, and whether it is right.

    Attributes:
        distance: to the antecedent, in sentences; None: unknown.
        group: the film; items of one film depend on each other. None: independent.
    """

    id: int
    rule: str
    right: bool
    output: str
    distance: int | None = None
    group: str | None = None

    def to_json(self) -> dict:
        """Return the item as a JSON object."""
        return vars(self)


def judge_lines(expectations: Sequence[Mapping[str, Any]], hypotheses: Path) -> list[Judged]:
    """Judge a file with a document per entry, or with the translation of each entry's sentence per line.

    Raises UserError if the number of documents or lines differs from that of entries, or if a document's number of
    sentences differs from its entry's.
    """
    judged = []
    for number, (entry, line) in enumerate(zip(expectations, _outputs(expectations, hypotheses), strict=True)):
        right = f" {bare(entry['expected'])} " in f" {bare(line)} "
        judged.append(Judged(number, entry["rule"], right, line, entry.get("ante distance"), film(entry)))
    return judged


def _outputs(expectations: Sequence[Mapping[str, Any]], hypotheses: Path) -> list[str]:
    """Return the translation of each entry's sentence: the last one of its document, or its line."""
    lines = read_sentences(hypotheses)  # once: it may be a pipe
    documents = divided(hypotheses, lines)[0] if None in lines else [[line] for line in lines]
    if len(documents) != len(expectations):
        raise UserError(
            f"{hypotheses}: {len(documents)} lines or documents, but the suite has {len(expectations)} entries; write "
            "the translation of each entry's sentence on a line, or documents that each start with <d>"
        )
    for number, (entry, document) in enumerate(zip(expectations, documents, strict=True)):
        if None in lines and len(document) != entry.get(SCORED, len(document) - 1) + 1:
            raise UserError(
                f"{hypotheses}: document {number} has {len(document)} sentences, its source {entry[SCORED] + 1}; "
                "translate sentence by sentence, or give ctxpro's own file as --items, where each document's last "
                "sentence counts"
            )
    return [document[-1] for document in documents]


def report(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return accuracy in total, by rule, by distance, and by distance within each rule."""
    kinds = {"rule": attrgetter("rule"), "distance": attrgetter("distance")}
    return accuracy_report(judged, accuracy, "rule", kinds, kinds, ["distance"])


def accuracy(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return the percentage of right items with its standard error, and the numbers of right items and of all."""
    right = [one.right for one in judged]
    return {
        "accuracy": 100.0 * sum(right) / len(right),
        "standard_error": standard_error(right, [one.group for one in judged]),
        "solved": sum(right),
        "items": len(right),
    }


def sign_tests(baseline: Sequence[Judged], system: Sequence[Judged]) -> dict[str, Any]:
    """Return an exact sign test of two systems, two-sided, in total, by rule and by distance, as JSON objects.

    A unit is a film; of items that name none, the item. It is better if the system has more of its items right.
    """

    def test(items: Sequence[tuple[Judged, Judged]]) -> dict[str, Any]:
        gains: Counter[tuple] = Counter()
        for number, (old, new) in enumerate(items):
            gains["item", number if new.group is None else new.group] += new.right - old.right
        better, worse = (sum(sign * gain > 0 for gain in gains.values()) for sign in (1, -1))
        p_value = None
        if len(gains) >= MIN_UNITS:
            p_value = float(stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0
        return {"better": better, "worse": worse, "equal": len(gains) - better - worse, "p_value": p_value}

    kinds = {"rule": lambda pair: pair[0].rule, "distance": lambda pair: pair[0].distance}
    return accuracy_report(list(zip(baseline, system, strict=True)), test, "rule", kinds, kinds, ())
