"""Contrastive items over a prepared corpus: does the model prefer the right translation to wrong ones, in its document?

An item names one sentence of a split, its right translation and one or more wrong ones. It also states how many
sentences back the deciding context is; in the set by distance of context, for each side. An item is solved if the right
translation is strictly more probable than every wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.sentence_scores import Progress, SentenceScorer, TokenLists, silent
from gtransformer.files import read_json
from gtransformer.lab.items.batch_scores import BatchRequest, BatchScorer
from gtransformer.plugin.sentences import SentenceSpan
from gtransformer.preprocess.characters import clean_line

SIDES = ("distance_source", "distance_target")  # to the nearest sentence of a side that discloses the answer
OPTIONAL = (*SIDES, "group")


@dataclass(frozen=True)
class Item:
    """One item; ``document`` and ``sentence`` count from 0, ``sentence`` within its document.

    Attributes:
        distance: sentences back to the nearest that discloses the answer.
        distance_source, distance_target: on that side only; None if the set does not distinguish the sides.
        group: items of one group differ in the answer only; None: the item is in no group.
        others: right and wrong translations, in this order, with an error in another word of this sentence that context
            decides.
    """

    id: int
    phenomenon: str
    detail: str
    document: int
    sentence: int
    distance: int
    correct: str
    wrong: tuple[str, ...]
    distance_source: int | None = None
    distance_target: int | None = None
    group: int | None = None
    others: tuple[tuple[str, ...], ...] = ()

    @property
    def dependent(self) -> int | str:
        """The item's group or, without one, its document: items with the same one depend on each other."""
        return f"document {self.document}" if self.group is None else self.group

    @property
    def name(self) -> str:
        """Return the item's name, for messages."""
        return f"contrastive item {self.id} (sentence {self.sentence} of document {self.document})"


@dataclass(frozen=True)
class ItemScores:
    """Log probabilities of an item's right and wrong translations."""

    item: Item
    correct: float
    wrong: tuple[float, ...]

    @property
    def group(self) -> int | str:
        """See ``Item.dependent``."""
        return self.item.dependent

    @property
    def solved(self) -> bool:
        """Whether the right translation is strictly better than all wrong ones."""
        return self.correct > max(self.wrong)

    def to_json(self) -> dict[str, Any]:
        """Return the item and its scores as a JSON object."""
        given = [key for key in OPTIONAL if getattr(self.item, key) is not None]
        shown = {key: getattr(self.item, key) for key in ("id", "phenomenon", "detail", "distance", *given)}
        return {**shown, "correct": self.correct, "wrong": list(self.wrong), "solved": self.solved}


def check_right_translation(item: Item, reference: str | None) -> None:
    """Raise UserError unless an item's right translation is the reference of its sentence (None: no reference)."""
    if reference != item.correct:
        raise UserError(
            f"{item.name}: its right translation {item.correct!r} is not the reference; use the items of the corpus"
        )


def read_items(path: str | Path) -> tuple[str, list[Item]]:
    """Return split and items of a ``contrastive.json``."""
    data = read_json(path)
    items = []
    for entry in data["items"]:
        wrong, *others = (tuple(map(clean_line, row)) for row in (entry["wrong"], *entry.get("others", [])))
        texts = {"correct": clean_line(entry["correct"]), "wrong": wrong, "others": tuple(others)}  # as the corpus's
        items.append(Item(**entry | texts))
    return data["split"], items


def score_items(
    scorer: SentenceScorer,
    items: Sequence[Item],
    spans: Sequence[SentenceSpan],
    read: Callable[[int], tuple[TokenLists, TokenLists]],
    encode: Callable[[Sequence[str]], TokenLists],
    progress: Progress = silent,
) -> list[ItemScores]:
    """Score all items, in their order, each in the instance in which its sentence is current.

    A candidate replaces its sentence, and the target ends there, as later tokens cannot change its probability.
    Exception: if the target's length determines the windows, the rest of the target stays. A batch scorer also receives
    the previous sentences' instances with their references; the item is the last of ``scorer.together``. A wrong
    translation with the right one's tokens has its score, so the item is not solved.

    Args:
        spans: document, first sentence and current sentences of each instance.
        read: returns source and target sentences of an instance, as token indices.
        encode: turns plain sentences of the target language into token indices.

    Raises UserError if an item's right translation is not the reference of its sentence.
    """
    current = current_in(spans)
    texts = list(dict.fromkeys(text for item in items for text in (item.correct, *item.wrong)))
    encoded = dict(zip(texts, encode(texts), strict=True))
    together = scorer.together if isinstance(scorer, BatchScorer) else 1

    @cache
    def instance(number: int, name: str, others: tuple[int, ...] = ()) -> BatchRequest:
        before = tuple(instance(one, name) for one in others)
        return BatchRequest(*read(number), None, name, before, spans[number].first_sentence + 1)

    requests = []
    for item in items:
        number, offset = current[item.document, item.sentence]
        given = instance(number, item.name, instances_before(item.document, item.sentence, current, together))
        check_right_translation(item, item.correct if encoded[item.correct] == given.target[offset] else None)
        rest = given.target[offset + 1 :]
        for text in (item.correct, *item.wrong):
            target = [*given.target[:offset], encoded[text], *rest]
            requests.append(replace(given, target=target, scored=(offset,)))
    scores = iter(scorer.score(requests, progress))
    found = []
    for item in items:
        correct, *wrong = (next(scores)[0] for _ in (item.correct, *item.wrong))
        same = [encoded[text] == encoded[item.correct] for text in item.wrong]
        wrong = [correct if equal else score for score, equal in zip(wrong, same, strict=True)]
        found.append(ItemScores(item, correct, tuple(wrong)))
    return found


def instances_before(
    document: int, sentence: int, current: dict[tuple[int, int], tuple[int, int]], together: int
) -> tuple[int, ...]:
    """Return the instances of consecutive sentences up to the given one, at most ``together`` including its own."""
    found: list[int] = []
    for number in range(sentence - 1, sentence - together, -1):
        if (document, number) not in current:
            break
        found.append(current[document, number][0])
    return tuple(found[::-1])


def current_in(spans: Sequence[SentenceSpan]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return, by (document, sentence), the instance in which the sentence is current, and its index in the target."""
    found = {}
    for number, span in enumerate(spans):
        first, count = span.current or (span.first_sentence, span.sentences)
        for sentence in range(first, first + count):
            found[span.document, sentence] = number, sentence - span.first_sentence
    return found


def report(scores: Sequence[ItemScores]) -> dict[str, Any]:
    """Return accuracy in total, by phenomenon, by distance, and by distance within each phenomenon.

    If all items distinguish the sides, the report is also by source distance and by target distance.
    """
    kinds = {name: lambda score, key=key: key(score.item) for name, key in kinds_of([s.item for s in scores]).items()}
    return accuracy_report(scores, kinds)


def kinds_of(items: Sequence[Item]) -> dict[str, Callable[[Item], Any]]:
    """Return by what items are grouped in a report: phenomenon, distance and, if all distinguish the sides, those."""
    sides = SIDES if all(None not in (item.distance_source, item.distance_target) for item in items) else ()
    return {name: attrgetter(name) for name in ("phenomenon", "distance", *sides)}
