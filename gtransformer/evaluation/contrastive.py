"""Contrastive items over a prepared corpus: does the model prefer the right translation to wrong ones, in its document?

An item names one sentence of a split, its right translation and one or more wrong ones. It also states how many
sentences back the deciding context is; in the set by distance of context, for each side. An item is solved if the right
translation is strictly more probable than every wrong one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from gtransformer.data.sentences import SentenceSpan
from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import SIDES, accuracy, is_solved, ties
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.sentence_scores import Progress, Request, SentenceScorer, TokenLists, silent
from gtransformer.files import are_texts, check_entry, is_count, read_json
from gtransformer.preprocess.characters import clean_line

OPTIONAL = (*SIDES, "group")
# What determines an item's answer: its instance, else the other sentences of the batch, or nothing that is read.
IN_VIEW, IN_BATCH, OUT_OF_VIEW = "in view", "in batch", "out of view"


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
        return f"contrastive item {self.id}"

    @property
    def location(self) -> str:
        """Return the item's location, for messages."""
        return f"sentence {self.sentence} of document {self.document}"

    def disclosed(self, source: int, target: int) -> bool:
        """Return whether this many previous source and target sentences contain the deciding context."""
        sides = zip((self.distance_source, self.distance_target), (source, target), strict=True)
        return any((self.distance if back is None else back) <= seen for back, seen in sides)


@dataclass(frozen=True)
class ItemScores:
    """Log probabilities of an item's right and wrong translations.

    ``view``: whether what discloses the answer is ``IN_VIEW``, ``IN_BATCH`` or ``OUT_OF_VIEW``.
    """

    item: Item
    correct: float
    wrong: tuple[float, ...]
    view: str

    @property
    def group(self) -> int | str:
        """See ``Item.dependent``."""
        return self.item.dependent

    def to_json(self) -> dict[str, Any]:
        """Return the item and its scores as a JSON object."""
        given = [key for key in OPTIONAL if getattr(self.item, key) is not None]
        shown = {key: getattr(self.item, key) for key in ("id", "phenomenon", "detail", "distance", *given)}
        return {**shown, "correct": self.correct, "wrong": list(self.wrong), "solved": is_solved(self)}


def check_right_translation(item: Item, reference: str | None) -> None:
    """Raise UserError unless an item's right translation is the reference of its sentence (None: no reference)."""
    if reference != item.correct:
        raise UserError(
            f"{item.name}: its right translation {item.correct!r} is not the reference of {item.location}; use the "
            "items that belong to the corpus"
        )


def read_items(path: str | Path) -> tuple[str, list[Item]]:
    """Return split and items of a ``contrastive.json``. Raises UserError, naming the entry, for another format."""
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("items"), list) or not isinstance(data.get("split"), str):
        raise UserError(f"{path}: not a contrastive set; expected 'split' and a list 'items'")
    counts, texts = ("id", "document", "sentence", "distance"), ("phenomenon", "detail", "correct")
    items = []
    for number, entry in enumerate(data["items"]):
        given = entry if isinstance(entry, dict) else {}
        wrong, others = given.get("wrong"), given.get("others", [])
        fits = {key: is_count(given.get(key)) for key in counts}
        fits |= {key: isinstance(given.get(key), str) for key in texts}
        fits["wrong"] = bool(wrong) and are_texts(wrong)
        fits |= {key: is_count(given[key]) for key in OPTIONAL if key in given}
        fits["others"] = isinstance(others, list) and all(are_texts(row) and len(row) > 1 for row in others)
        check_entry(f"{path}: entry {number} of 'items'", fits)
        more = {key: given[key] for key in OPTIONAL if key in given}
        more |= {key: given[key] for key in (*counts, *texts) if key != "correct"}
        wrong, *others = (tuple(map(clean_line, texts)) for texts in (wrong, *others))  # as the corpus's text
        items.append(Item(correct=clean_line(given["correct"]), wrong=wrong, others=tuple(others), **more))
    if not items:
        raise UserError(f"{path}: the contrastive set has no items")
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

    One pass over an instance's reference scores all its right translations. A wrong translation replaces its sentence,
    and the target ends there, as later tokens cannot change its probability. Exception: if the target's length
    determines the windows, the rest of the target stays. A batch scorer also receives the previous sentences' instances
    with their references; the item is the last of ``scorer.together``. A wrong translation with the right one's tokens
    has its score, so the item is not solved.

    Args:
        spans: document, first sentence and current sentences of each instance.
        read: returns source and target sentences of an instance, as token indices.
        encode: turns plain sentences of the target language into token indices.

    Raises UserError if an item's sentence is in no instance or if its right translation is not the reference.
    """
    current = current_in(spans)
    texts = list(dict.fromkeys(text for item in items for text in (item.correct, *item.wrong)))
    encoded = dict(zip(texts, encode(texts), strict=True))
    scored: dict[int, list[int]] = {}  # instance -> its target sentences that are items
    for item in items:
        if (item.document, item.sentence) not in current:
            raise UserError(
                f"{item.name}: {item.location} is not in the prepared split; use the items that belong to the corpus"
            )
        number, offset = current[item.document, item.sentence]
        scored.setdefault(number, []).append(offset)
    read = cache(read)
    requests: list[Request] = []
    whole: dict[int, int] = {}  # instance -> its request with the whole reference
    wanted = []  # per item: request and place of its answer, those of the wrong ones, view
    for item in items:
        number, offset = current[item.document, item.sentence]
        if number not in whole:
            whole[number] = len(requests)
            others = instances_before(item.document, item.sentence, current, scorer.together)
            before = tuple(Request(*read(one), number=spans[one].first_sentence + 1) for one in others)
            begins = spans[number].first_sentence + 1
            requests.append(Request(*read(number), tuple(scored[number]), item.name, before, begins))
        given = requests[whole[number]]
        source, target = given.source, given.target
        check_right_translation(item, item.correct if encoded[item.correct] == target[offset] else None)
        answer = whole[number], scored[number].index(offset)
        wrong = []
        rest = target[offset + 1 :] if scorer.depends_on_length else []
        for text in item.wrong:
            if encoded[text] == encoded[item.correct]:
                wrong.append(answer)
                continue
            wrong.append((len(requests), 0))
            other = [*target[:offset], encoded[text], *rest]
            requests.append(replace(given, target=other, scored=(offset,), name=item.name))
        # Both sides end with the same sentence, but one of them may begin earlier.
        view = IN_VIEW if item.disclosed(offset + len(source) - len(target), offset) else OUT_OF_VIEW
        if view == OUT_OF_VIEW and given.before and item.disclosed(*scorer.reach(given.before)):
            view = IN_BATCH
        wanted.append((answer, wrong, view))
    scores = scorer.score(requests, progress)
    return [
        ItemScores(item, scores[request][place], tuple(scores[one][at] for one, at in wrong), view)
        for item, ((request, place), wrong, view) in zip(items, wanted, strict=True)
    ]


def instances_before(
    document: int, sentence: int, current: dict[tuple[int, int], tuple[int, int]], together: int
) -> list[int]:
    """Return the instances of consecutive sentences up to the given one, at most ``together`` including its own."""
    found: list[int] = []
    for number in range(sentence - 1, sentence - together, -1):
        if (document, number) not in current:
            break
        found.append(current[document, number][0])
    return found[::-1]


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
    ``context_out_of_view`` counts items whose deciding context the model does not read, so it can only guess.
    ``context_in_batch``, if any, counts items whose answer only the batch's other sentences determine, and ``tied``
    those with a wrong translation of the same tokens.
    """
    sides = SIDES if all(None not in (s.item.distance_source, s.item.distance_target) for s in scores) else ()
    distances = {key: attrgetter(f"item.{key}") for key in ("distance", *sides)}
    kinds = {"phenomenon": attrgetter("item.phenomenon"), "view": attrgetter("view"), **distances}
    result = accuracy_report(scores, accuracy, "phenomenon", kinds, ["phenomenon", *distances], ["view", *distances])
    counts = Counter(score.view for score in scores)
    in_batch = {"context_in_batch": counts[IN_BATCH]} if counts[IN_BATCH] else {}
    return result | {"context_out_of_view": counts[OUT_OF_VIEW], **in_batch, **ties(scores)}
