"""Generative accuracy: does what a system *translated* hold the form that the context asks for?

An item of a contrastive set (``contrastive.Item``) has a right translation and wrong ones, which differ from it in the
forms that its context decides: a pronoun, the words of address, an ambiguous noun with its article. In a translation
these forms are counted: it is right if it has each as often as the right translation, wrong if as often as one of the
wrong ones, and neither otherwise (the form is missing, or forms are mixed). The rest of the sentence does not matter.
In the set of the demo's language the grammar made the wrong translations by writing the right one's template out for
another gender, register or sense, so that the forms are those of the grammar.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


def outcome(output: str, correct: str, wrong: Sequence[str], name: str = "a text") -> str:
    """One of ``OUTCOMES``. Upper and lower case are the same, as a form may open the sentence.

    Raises UserError where the words of right and wrong are the same, so that nothing can be told by them.
    """
    right, *others = [Counter(re.findall(r"\w+", text.lower())) for text in (correct, *wrong)]
    for other, text in zip(others, wrong, strict=True):
        if other == right:
            raise UserError(f"{name}: {correct!r} and {text!r} have the same words; leave this item out")
    deciding = {word for other in others for word in {*right, *other} if right[word] != other[word]}
    found = Counter(re.findall(r"\w+", output.lower()))
    if all(found[word] == right[word] for word in deciding):
        return RIGHT
    agree = (all(found[word] == other[word] for word in deciding) for other in others)
    return WRONG if any(agree) else NEITHER


def judge(items: Sequence[Item], texts: Documents, references: Documents) -> list[Judged]:
    """The outcomes of all items in a translation, documents of sentences, beside its reference.

    Raises UserError for an item whose right translation is not the reference of its sentence.
    """
    judged = []
    for item in items:
        name = f"item {item.id}"
        document = references[item.document] if item.document < len(references) else []
        if not 0 <= item.sentence < len(document) or document[item.sentence] != item.correct:
            raise UserError(
                f"{name}: its right translation {item.correct!r} is not the reference of sentence {item.sentence} of "
                f"document {item.document}; use the items that belong to the corpus"
            )
        output = texts[item.document][item.sentence]
        found = outcome(output, item.correct, item.wrong, name)
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
