"""Generative accuracy: does what a system *translated* hold the form that the context asks for?

An item of a contrastive set (``contrastive.Item``) has a right translation and wrong ones, which differ from it in the
forms that its context decides: a pronoun, the words of address, an ambiguous noun with its article. In a translation
these forms are counted: it is right if it has each as often as the right translation, wrong if as often as one of the
wrong ones, and neither otherwise (the form is missing, or forms are mixed). The rest of the sentence does not matter.
Where a sentence holds the forms of something else, too, that context decides, and a word may be either's (*sie*, the
thing, and polite *Sie*), those of both are counted together, and what the other one is does not matter.
In the set of the demo's language the grammar made the wrong translations by writing the right one's template out for
another gender, register or sense, so that the forms are those of the grammar.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.evaluation.contrastive import SIDES, Item, bucket_name, standard_error
from gtransformer.evaluation.prepared_split import RAW, find_sidecar, read_target
from gtransformer.evaluation.realignment import ORDER
from gtransformer.evaluation.score import score_translations
from gtransformer.preprocess.plain_text import Documents

RIGHT, WRONG, NEITHER = OUTCOMES = ("right", "wrong", "neither")


@dataclass(frozen=True)
class Judged:
    """What a system made of an item.

    ``distances``: {"distance": 3, ...}, in sentences, as far as the set knows them. Items of one ``group`` depend on
    each other; None: on no other's.
    """

    id: int
    kind: str
    outcome: str
    output: str
    distances: Mapping[str, int] = field(default_factory=dict)
    group: int | str | None = None

    def to_json(self) -> dict:
        """The item as a JSON object, its distances beside the rest."""
        group = {} if self.group is None else {"group": self.group}
        return {
            "id": self.id,
            "phenomenon": self.kind,
            **self.distances,
            **group,
            "output": self.output,
            "outcome": self.outcome,
            "solved": self.outcome == RIGHT,
        }


def outcome(
    output: str, correct: str, wrong: Sequence[str], name: str = "a text", others: Sequence[Sequence[str]] = ()
) -> str:
    """One of ``OUTCOMES``. Upper and lower case are the same, as a form may open the sentence.

    Args:
        others: rows of right and wrong texts in which something else is wrong (``Item.others``).

    Raises UserError where the words of right and wrong are the same, so that nothing can be told by them.
    """
    rows = [(correct, *wrong), *others]
    words = [[_words(text) for text in row] for row in rows]
    for right, text in product((row[0] for row in rows), (text for row in rows for text in row[1:])):
        if _words(right) == _words(text):
            raise UserError(f"{name}: {right!r} and {text!r} have the same words; leave this item out")
    deciding = {word for row in words for other in row[1:] for word in _differing(row[0], other)}
    beside = {word for row in words[1:] for word in _differing(row[0], words[0][0])}
    if deciding & beside:
        deciding |= beside
    else:  # a word is one's or the other's, so that either can be judged alone
        words = words[:1]
    found = _words(output)

    def agrees(text: Counter[str]) -> bool:
        return all(found[word] == text[word] for word in deciding)

    if any(agrees(row[0]) for row in words):
        return RIGHT
    return WRONG if any(agrees(text) for row in words for text in row[1:]) else NEITHER


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def _differing(one: Counter[str], other: Counter[str]) -> set[str]:
    return {word for word in {*one, *other} if one[word] != other[word]}


def judge(items: Sequence[Item], texts: Documents, references: Documents) -> list[Judged]:
    """The outcomes of all items in a translation, documents of sentences, beside its reference.

    Raises UserError for an item whose right translation is not the reference of its sentence.
    """
    judged = []
    for item in items:
        name = f"item {item.id}"
        document = references[item.document] if 0 <= item.document < len(references) else []
        if not 0 <= item.sentence < len(document) or document[item.sentence] != item.correct:
            raise UserError(
                f"{name}: its right translation {item.correct!r} is not the reference of sentence {item.sentence} of "
                f"document {item.document}; use the items that belong to the corpus"
            )
        output = texts[item.document][item.sentence]
        found = outcome(output, item.correct, item.wrong, name, item.others)
        distances = {key: getattr(item, key) for key in ("distance", *SIDES) if getattr(item, key) is not None}
        judged.append(Judged(item.id, item.phenomenon, found, output, distances, item.group))
    return judged


def judge_translations(
    items: Sequence[Item], prepared: Path, split: str, hypotheses: Path, alignment: str = ORDER
) -> list[Judged]:
    """The outcomes of all items in a system's translation of their split, a file as ``score_translations`` takes it."""
    references = read_target(prepared, Sidecar.load(find_sidecar(prepared, split)), RAW)
    evaluation = score_translations(prepared, split, hypotheses, metrics=(), alignment=alignment)
    return judge(items, evaluation.scores["raw"].documents, references)


def report(judged: Sequence[Judged], kind: str = "phenomenon") -> dict:
    """Accuracy in total, by kind, and by every distance that is known, alone and within the kind."""
    parts = {name: [one for one in judged if one.kind == name] for name in sorted({one.kind for one in judged})}
    result = {"total": accuracy(judged), f"by_{kind}": {name: accuracy(part) for name, part in parts.items()}}
    for key in dict.fromkeys(key for one in judged for key in one.distances):
        known = [one for one in judged if key in one.distances]
        result[f"by_{key}"] = _by_distance(known, key)
        within = {name: _by_distance([one for one in known if one.kind == name], key) for name in parts}
        result[f"by_{kind}_and_{key}"] = {name: rows for name, rows in within.items() if rows}
    return result


def accuracy(judged: Sequence[Judged]) -> dict:
    """Items that are right, in per cent of all, with its standard error; and how many there are of each outcome."""
    counts = Counter(one.outcome for one in judged)
    solved = [one.outcome == RIGHT for one in judged]
    return {
        "accuracy": 100.0 * counts[RIGHT] / len(judged),
        "standard_error": standard_error(solved, [one.group for one in judged]),
        **{name: counts[name] for name in OUTCOMES},
        "items": len(judged),
    }


def _by_distance(judged: Sequence[Judged], key: str) -> dict:
    groups: dict[str, list[Judged]] = {}
    for one in sorted(judged, key=lambda one: one.distances[key]):
        groups.setdefault(bucket_name(one.distances[key]), []).append(one)
    return {row: accuracy(group) for row, group in groups.items()}
