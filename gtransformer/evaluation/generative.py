"""Generative accuracy: does what a system *translated* hold the form that the context asks for?

Of an item of a contrastive set (``contrastive.Item``) the wrong translations differ from the right one in the forms
that its context decides: a pronoun, the words of address, an ambiguous noun with its article. In a translation these
forms are counted: it is right if it has each as often as the right translation, wrong if as often as one of the wrong
ones, and neither otherwise (the form is missing, or forms are mixed). The rest of the sentence does not matter. Where
a sentence holds the forms of something else, too, that context decides, and a word may be either's (*sie*, the thing,
and polite *Sie*), those of both are counted together, and what the other one is does not matter.

Of ctxpro (Wicks and Post 2023), sentences of real text, a translation is right if it holds the expected word,
lower-cased, punctuation taken off; there are no wrong answers. Its files are JSON lists with an entry a sentence:
``expected``, ``rule``, ``ante distance``, ``document id``. The translation is a line, or the last sentence of the
translation of a document, the sentence with its context.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import SIDES, standard_error
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.contrastive import Item, check_right_translation
from gtransformer.evaluation.prepared_split import find_instance_index, read_side
from gtransformer.evaluation.realignment import ORDER
from gtransformer.evaluation.score import score_translations
from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import DOCUMENT, is_document_mark
from gtransformer.preprocess.ctxpro import SCORED
from gtransformer.preprocess.plain_text import Documents, bare, read_plain

RIGHT, WRONG, NEITHER = OUTCOMES = ("right", "wrong", "neither")


@dataclass(frozen=True)
class Judged:
    """What a system made of an item.

    Attributes:
        distances: {"distance": 3, ...}, in sentences, as far as the set knows them.
        group: items of one group depend on each other; None: on no other's.
    """

    id: int
    kind: str
    outcome: str
    output: str
    distances: Mapping[str, int] = field(default_factory=dict)
    group: int | str | None = None

    def to_json(self) -> dict:
        """Return the item as a JSON object, its distances beside the rest."""
        group = {} if self.group is None else {"group": self.group}
        solved = self.outcome == RIGHT
        head = {"id": self.id, "phenomenon": self.kind, **self.distances, **group}
        return {**head, "output": self.output, "outcome": self.outcome, "solved": solved}


def outcome(
    output: str, correct: str, wrong: Sequence[str], name: str = "a text", others: Sequence[Sequence[str]] = ()
) -> str:
    """Return one of ``OUTCOMES``. Upper and lower case are the same, as a form may open the sentence.

    Args:
        others: rows of right and wrong texts in which something else is wrong (``Item.others``).

    Raises UserError where the words of right and wrong are the same, so that nothing can be told by them.
    """
    rows = [[_words(text) for text in row] for row in ((correct, *wrong), *others)]
    for right, text in product((row[0] for row in rows), (text for row in rows for text in row[1:])):
        if right == text:
            raise UserError(f"{name}: a right and a wrong translation have the same words; leave this item out")
    deciding = {word for row in rows for text in row[1:] for word in _differing(row[0], text)}
    of_others = {word for row in rows[1:] for word in _differing(row[0], rows[0][0])}
    if deciding & of_others:
        deciding |= of_others
    else:  # a word is one's or the other's, so that either can be judged alone
        rows = rows[:1]
    found = _words(output)

    def agrees(text: Counter[str]) -> bool:
        return all(found[word] == text[word] for word in deciding)

    if any(agrees(row[0]) for row in rows):
        return RIGHT
    return WRONG if any(agrees(text) for row in rows for text in row[1:]) else NEITHER


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def _differing(one: Counter[str], other: Counter[str]) -> set[str]:
    return {word for word in {*one, *other} if one[word] != other[word]}


def judge(items: Sequence[Item], texts: Documents, references: Documents) -> list[Judged]:
    """Return the outcomes of all items in a translation, documents of sentences, beside its reference.

    Raises UserError for an item whose right translation is not the reference of its sentence.
    """
    judged = []
    known = {(d, s): one for d, document in enumerate(references) for s, one in enumerate(document)}
    for item in items:
        check_right_translation(item, known.get((item.document, item.sentence)))
        output = texts[item.document][item.sentence]
        found = outcome(output, item.correct, item.wrong, item.name, item.others)
        distances = {key: getattr(item, key) for key in ("distance", *SIDES) if getattr(item, key) is not None}
        judged.append(Judged(item.id, item.phenomenon, found, output, distances, item.group))
    return judged


def judge_translations(
    items: Sequence[Item], prepared: Path, split: str, hypotheses: Path, alignment: str = ORDER
) -> list[Judged]:
    """Return the outcomes of all items in a system's translation of their split, a file as ``score_translations`` takes
    it.
    """
    instance_index = InstanceIndex.load(find_instance_index(prepared, split))
    references = read_side(prepared, instance_index, instance_index.target_lang)
    evaluation = score_translations(prepared, split, hypotheses, metrics=(), alignment=alignment)
    return judge(items, evaluation.scores["raw"].documents, references)


def judge_lines(expectations: Sequence[Mapping[str, Any]], hypotheses: Path) -> list[Judged]:
    """Return the outcomes in a file with a document an entry, or with the translation of each entry's sentence on a
    line.

    Entries of one film are a group. Raises UserError where there are not as many documents or lines as entries, and
    where a document has more or fewer sentences than its entry says.
    """
    judged = []
    for number, (entry, line) in enumerate(zip(expectations, _outputs(expectations, hypotheses), strict=True)):
        found = RIGHT if f" {bare(entry['expected'])} " in f" {bare(line)} " else NEITHER
        distances = {} if entry.get("ante distance") is None else {"distance": entry["ante distance"]}
        document = str(entry.get("document id", number))
        judged.append(Judged(number, entry["rule"], found, line, distances, document))
    return judged


def _outputs(expectations: Sequence[Mapping[str, Any]], hypotheses: Path) -> list[str]:
    """Return the translation of each entry's sentence: the last one of its document, or its line."""
    lines = list(read_lines(hypotheses))
    if not any(map(is_document_mark, lines)):
        if len(lines) != len(expectations):
            raise UserError(
                f"{hypotheses}: {len(lines)} lines, but the suite has {len(expectations)} entries; write the "
                f"translation of each entry's sentence on a line, or documents, each opened by {DOCUMENT}"
            )
        return lines
    documents, _ = read_plain(hypotheses)
    if len(documents) != len(expectations):
        raise UserError(
            f"{hypotheses}: {len(documents)} documents, but the suite has {len(expectations)} entries; translate the "
            "document of each entry"
        )
    for number, (entry, document) in enumerate(zip(expectations, documents, strict=True)):
        if len(document) != entry.get(SCORED, len(document) - 1) + 1:
            raise UserError(
                f"{hypotheses}: document {number} has {len(document)} sentences, but its source {entry[SCORED] + 1}; "
                "translate sentence by sentence, or give ctxpro's own file as --items, of whose documents the last "
                "sentence counts"
            )
    return [document[-1] for document in documents]


def report(judged: Sequence[Judged], kind: str = "phenomenon") -> dict[str, Any]:
    """Accuracy in total, by kind, and by every distance that is known, alone and within the kind."""
    distances = list(dict.fromkeys(key for one in judged for key in one.distances))
    kinds = {kind: attrgetter("kind"), **{key: lambda one, key=key: one.distances.get(key) for key in distances}}
    result = accuracy_report(judged, accuracy, kind, kinds, [kind, *distances], distances)
    for key in distances:
        within = result[f"by_{kind}_and_{key}"]
        result[f"by_{kind}_and_{key}"] = {name: found for name, found in within.items() if found}
    return result


def accuracy(judged: Sequence[Judged]) -> dict[str, Any]:
    """Items that are right, in per cent of all, with its standard error; and how many there are of each outcome."""
    counts = Counter(one.outcome for one in judged)
    return {
        "accuracy": 100.0 * counts[RIGHT] / len(judged),
        "standard_error": standard_error([one.outcome == RIGHT for one in judged], [one.group for one in judged]),
        **{name: counts[name] for name in OUTCOMES},
        "items": len(judged),
    }
