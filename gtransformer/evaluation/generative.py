"""Generative accuracy: does a system's translation contain the form that the context requires?

The wrong translations of a contrastive item (``contrastive.Item``) differ from the right one in the forms that context
decides: a pronoun, the words of address, an ambiguous noun with its article. These forms are counted in the system's
translation. It is right if the counts are those of the right translation, wrong if they are those of a wrong one, else
neither (a form is missing, or forms are mixed). The rest of the sentence does not matter.

Context may decide something else in the same sentence. If a word can belong to either (*sie*, the thing, and polite
*Sie*), the forms of both are counted together, and the value of the other does not matter.

For ctxpro (Wicks and Post 2023), sentences of real text, a translation is right if it contains the expected word,
lower-cased and without punctuation. There are no wrong answers. Its files are JSON lists with an entry per sentence:
``expected``, ``rule``, ``ante distance``, ``document id``. The translation is a line, or the last sentence of a
translated document, which is the sentence with its context. ContraPro in this form (``suite_files``; Post and
Junczys-Dowmunt 2023) has ``wrong forms``, too: a translation with one of them and without the expected word is wrong,
not neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

import regex

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import SIDES, standard_error
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.contrastive import Item, check_right_translation
from gtransformer.evaluation.prepared_split import find_instance_index, read_side
from gtransformer.evaluation.realignment import BY_ORDER, Alignment
from gtransformer.evaluation.score import check_plain, score_translations
from gtransformer.evaluation.significance import MIN_UNITS, SignTest, binomial_p_value
from gtransformer.preprocess.corpus import DOCUMENT
from gtransformer.preprocess.ctxpro import SCORED, film
from gtransformer.preprocess.ctxpro import WRONG as WRONG_FORMS
from gtransformer.preprocess.plain_text import Documents, bare, divided, read_sentences

RIGHT, WRONG, NEITHER = OUTCOMES = ("right", "wrong", "neither")


@dataclass(frozen=True)
class Judged:
    """A system's translation of an item, and its outcome.

    Attributes:
        distances: {"distance": 3, ...}, in sentences, as far as the set gives them.
        group: items of one group, or of one document without groups, depend on each other; None: independent.
    """

    id: int
    kind: str
    outcome: str
    output: str
    distances: Mapping[str, int] = field(default_factory=dict)
    group: int | str | None = None

    def to_json(self) -> dict:
        """Return the item as a JSON object, including its distances."""
        group = {} if self.group is None else {"group": self.group}
        solved = self.outcome == RIGHT
        head = {"id": self.id, "phenomenon": self.kind, **self.distances, **group}
        return {**head, "output": self.output, "outcome": self.outcome, "solved": solved}


def outcome(
    output: str, correct: str, wrong: Sequence[str], name: str = "a text", others: Sequence[Sequence[str]] = ()
) -> str:
    """Return one of ``OUTCOMES``. Case is ignored, as a form may start the sentence.

    Args:
        others: rows of right and wrong texts that differ in something else (``Item.others``).

    Raises UserError if a right and a wrong text have the same words.
    """
    rows = [[_words(text) for text in row] for row in ((correct, *wrong), *others)]
    for right, text in product((row[0] for row in rows), (text for row in rows for text in row[1:])):
        if right == text:
            raise UserError(f"{name}: a right and a wrong translation have the same words; leave this item out")
    deciding = {word for row in rows for text in row[1:] for word in _differing(row[0], text)}
    of_others = {word for row in rows[1:] for word in _differing(row[0], rows[0][0])}
    if deciding & of_others:
        deciding |= of_others
    else:  # no word belongs to both, so this item can be judged alone
        rows = rows[:1]
    found = _words(output)

    def agrees(text: Counter[str]) -> bool:
        return all(found[word] == text[word] for word in deciding)

    if any(agrees(row[0]) for row in rows):
        return RIGHT
    return WRONG if any(agrees(text) for row in rows for text in row[1:]) else NEITHER


def _words(text: str) -> Counter[str]:
    return Counter(regex.findall(r"\w+", text.lower()))  # with the signs on letters, which re leaves out


def _differing(one: Counter[str], other: Counter[str]) -> set[str]:
    return {word for word in {*one, *other} if one[word] != other[word]}


def judge(items: Sequence[Item], texts: Documents, references: Documents) -> list[Judged]:
    """Return the outcomes of all items in a translation, given as documents of sentences, with its reference.

    Raises UserError for an item whose right translation is not the reference of its sentence.
    """
    judged = []
    known = {(d, s): one for d, document in enumerate(references) for s, one in enumerate(document)}
    for item in items:
        check_right_translation(item, known.get((item.document, item.sentence)))
        output = texts[item.document][item.sentence]
        found = outcome(output, item.correct, item.wrong, item.name, item.others)
        distances = {key: getattr(item, key) for key in ("distance", *SIDES) if getattr(item, key) is not None}
        judged.append(Judged(item.id, item.phenomenon, found, output, distances, item.dependent))
    return judged


def judge_translations(
    items: Sequence[Item], prepared: Path, split: str, hypotheses: Path, alignment: Alignment = BY_ORDER
) -> tuple[list[Judged], int]:
    """Return the outcomes of all items in a system's translation of their split, and the number of its instances (of
    plain text: documents) with another number of sentences. The file is as for ``score_translations``.
    """
    instance_index = InstanceIndex.load(find_instance_index(prepared, split))
    references = read_side(prepared, instance_index, instance_index.target_lang)
    evaluation = score_translations(prepared, split, hypotheses, metrics=(), alignment=alignment)
    judged = judge(items, evaluation.scores["raw"].documents, references)
    return judged, evaluation.counts["misaligned_instances"]


def judge_lines(expectations: Sequence[Mapping[str, Any]], hypotheses: Path) -> list[Judged]:
    """Return the outcomes in a file with a document per entry, or with the translation of each entry's sentence per
    line.

    Entries of one film are a group. An output is wrong if it has one of the entry's ``WRONG_FORMS`` only.

    Raises UserError if the number of documents or lines differs from that of entries,
    or if a document's number of sentences differs from its entry's.
    """
    judged = []
    for number, (entry, line) in enumerate(zip(expectations, _outputs(expectations, hypotheses), strict=True)):
        words = f" {bare(line)} "

        def has(form: str, words: str = words) -> bool:
            return f" {bare(form)} " in words

        found = RIGHT if has(entry["expected"]) else WRONG if any(map(has, entry.get(WRONG_FORMS, []))) else NEITHER
        distances = {} if entry.get("ante distance") is None else {"distance": entry["ante distance"]}
        judged.append(Judged(number, entry["rule"], found, line, distances, film(entry)))
    return judged


def _outputs(expectations: Sequence[Mapping[str, Any]], hypotheses: Path) -> list[str]:
    """Return the translation of each entry's sentence: the last one of its document, or its line."""
    check_plain(hypotheses)
    lines = read_sentences(hypotheses)  # once: it may be a pipe
    if None not in lines:
        if len(lines) != len(expectations):
            raise UserError(
                f"{hypotheses}: {len(lines)} lines, but the suite has {len(expectations)} entries; write the "
                f"translation of each entry's sentence on a line, or documents that each start with {DOCUMENT}"
            )
        return lines
    documents, _ = divided(hypotheses, lines)
    if len(documents) != len(expectations):
        raise UserError(
            f"{hypotheses}: {len(documents)} documents, but the suite has {len(expectations)} entries; translate the "
            "document of each entry"
        )
    for number, (entry, document) in enumerate(zip(expectations, documents, strict=True)):
        if len(document) != entry.get(SCORED, len(document) - 1) + 1:
            raise UserError(
                f"{hypotheses}: document {number} has {len(document)} sentences, its source {entry[SCORED] + 1}; "
                "translate sentence by sentence, or give ctxpro's own file as --items, where each document's last "
                "sentence counts"
            )
    return [document[-1] for document in documents]


def report(judged: Sequence[Judged], kind: str = "phenomenon") -> dict[str, Any]:
    """Return accuracy in total, by kind, and by every known distance, alone and within the kind."""
    distances = list(dict.fromkeys(key for one in judged for key in one.distances))
    kinds = {kind: attrgetter("kind"), **{key: lambda one, key=key: one.distances.get(key) for key in distances}}
    result = accuracy_report(judged, accuracy, kind, kinds, [kind, *distances], distances)
    for key in distances:
        within = result[f"by_{kind}_and_{key}"]
        result[f"by_{kind}_and_{key}"] = {name: found for name, found in within.items() if found}
    return result


def sign_tests(baseline: Sequence[Judged], system: Sequence[Judged], kind: str, unit: str) -> dict[str, Any]:
    """Return a sign test of two systems in total, by kind and by distance, as JSON objects.

    A unit is a group of dependent items; without one, an item. It is better if the system has more of its items right.
    """
    pairs = list(zip(baseline, system, strict=True))

    def test(items: Sequence[tuple[Judged, Judged]]) -> dict[str, Any]:
        gains: Counter[tuple] = Counter()
        for number, (old, new) in enumerate(items):
            key = ("item", number) if new.group is None else ("group", new.group)
            gains[key] += (new.outcome == RIGHT) - (old.outcome == RIGHT)
        better, worse = (sum(sign * gain > 0 for gain in gains.values()) for sign in (1, -1))
        p_value = binomial_p_value(better, worse) if len(gains) >= MIN_UNITS else None
        return SignTest(unit, better, worse, len(gains) - better - worse, p_value).to_json()

    kinds = {kind: lambda pair: pair[0].kind, "distance": lambda pair: pair[0].distances.get("distance")}
    return accuracy_report(pairs, test, kind, kinds, kinds, ())


def accuracy(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return the percentage of right items with its standard error, and the number of items of each outcome."""
    counts = Counter(one.outcome for one in judged)
    return {
        "accuracy": 100.0 * counts[RIGHT] / len(judged),
        "standard_error": standard_error([one.outcome == RIGHT for one in judged], [one.group for one in judged]),
        **{name: counts[name] for name in OUTCOMES},
        "items": len(judged),
    }
