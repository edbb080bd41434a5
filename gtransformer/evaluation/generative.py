"""Generative accuracy: does a system's translation contain the form that the context requires?

The suites are ctxpro's (Wicks and Post 2023), sentences of real text: JSON lists with an entry per sentence
(``expected``, ``rule``, ``ante distance``, ``document id``). A translation is right if its last sentence, lower-cased
and without ASCII punctuation, contains the lower-cased expected word, as in ctxpro's own scorer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from scipy import stats

from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.accuracy import share_solved
from gtransformer.evaluation.significance import MIN_UNITS
from gtransformer.evaluation.suite_files import WITHOUT_PUNCTUATION
from gtransformer.preprocess.characters import one_form
from gtransformer.preprocess.ctxpro import SCORED, SEPARATOR, film
from gtransformer.preprocess.plain_text import divided, read_sentences


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


def contains(text: str, expected: str) -> bool:
    """Return whether a text contains a word, by the rule of ctxpro's scorer, which leaves the word's punctuation.

    An elided ``t'`` is never found therefore, in no system and not in the reference.
    """
    words = " ".join(one_form(text).lower().translate(WITHOUT_PUNCTUATION).split())
    return f" {one_form(expected).lower()} " in f" {words} "


def last_sentence(lang: str) -> Callable[[str], str]:
    """Return a function from a line to its last sentence, found by the splitter of ctxpro's scorer for this language.

    Text before ctxpro's separator ``<eos>`` is left out first.
    """
    from sentence_splitter import SentenceSplitter  # slow to import

    splitter = SentenceSplitter(language=lang)

    def last(line: str) -> str:
        text = line.rpartition(SEPARATOR)[2].strip()
        return (splitter.split(text) or [text])[-1]

    return last


def judge_lines(
    expectations: Sequence[Mapping[str, Any]],
    hypotheses: Path,
    last: Callable[[str], str] = str,
    odd: Sequence[int] = (),
) -> list[Judged]:
    """Judge a file with a document or a line per entry.

    What ``last`` makes of the line, or of the document's last line, counts. Entries in ``odd`` are left out.

    Raises UserError if the number of documents or lines differs from that of entries, or if a document's number of
    sentences differs from its entry's.
    """
    return judge(expectations, list(map(last, _outputs(expectations, hypotheses))), odd)


def judge(expectations: Sequence[Mapping[str, Any]], outputs: Sequence[str], odd: Sequence[int] = ()) -> list[Judged]:
    """Judge the translation of each entry's sentence; entries in ``odd`` are left out."""
    judged = []
    for number, (entry, output) in enumerate(zip(expectations, outputs, strict=True)):
        if number not in odd:
            right = contains(output, entry["expected"])
            judged.append(Judged(number, entry["rule"], right, output, entry.get("ante distance"), film(entry)))
    return judged


def _outputs(expectations: Sequence[Mapping[str, Any]], hypotheses: Path) -> list[str]:
    """Return the line, or the last line of the document, of each entry."""
    lines = read_sentences(hypotheses)  # once: it may be a pipe
    marked = None in lines
    documents = divided(hypotheses, lines)[0] if marked else [[line] for line in lines]
    if len(documents) != len(expectations):
        raise UserError(
            f"{hypotheses}: {len(documents)} lines or documents, but the suite has {len(expectations)} entries; write "
            "the translation of each entry on a line, or documents that each start with <d>"
        )
    for number, (entry, document) in enumerate(zip(expectations, documents, strict=True)):
        if marked and len(document) != entry.get(SCORED, len(document) - 1) + 1:
            raise UserError(
                f"{hypotheses}: document {number} has {len(document)} sentences, its source {entry[SCORED] + 1}; "
                "translate sentence by sentence"
            )
    return [document[-1] for document in documents]


def report(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return accuracy in total, by phenomenon (ctxpro's rule), by distance, and by distance within each phenomenon."""
    kinds = {"phenomenon": attrgetter("rule"), "distance": attrgetter("distance")}
    return accuracy_report(judged, accuracy, "phenomenon", kinds, ["distance"])


def accuracy(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return the percentage of right items with its standard error, and the numbers of right items and of all."""
    return share_solved([one.right for one in judged], [one.group for one in judged])


def sign_tests(baseline: Sequence[Judged], system: Sequence[Judged]) -> dict[str, Any]:
    """Return an exact sign test of two systems, two-sided, in total, by phenomenon and by distance, as JSON objects.

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

    kinds = {"phenomenon": lambda pair: pair[0].rule, "distance": lambda pair: pair[0].distance}
    return accuracy_report(list(zip(baseline, system, strict=True)), test, "phenomenon", kinds)
