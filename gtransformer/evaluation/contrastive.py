"""Contrastive items of the demo corpus: does the model prefer the right translation to the wrong ones, in its document?

An item names one sentence of a split, its right translation and one or more wrong ones, and how many sentences back the
context stands that decides between them; in the set that shows reach, for each side by itself. It counts as solved if
the right one is strictly more probable than every wrong one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gtransformer.data.places import Place
from gtransformer.errors import UserError
from gtransformer.evaluation.sentence_scores import Beside, Request, SentenceScorer, TokenLists
from gtransformer.files import read_json
from gtransformer.preprocess.clean import clean_line

# Distances of the deciding context, in sentences: (first, last) of each row of the report.
BUCKETS = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 6), (7, 12), (13, 24), (25, None))
SIDES = ("distance_source", "distance_target")
OPTIONAL = (*SIDES, "group")
# What discloses an item's answer: its instance, else the other sentences of the batch, or nothing that is read.
IN_VIEW, IN_BATCH, OUT_OF_VIEW = VIEWS = ("in view", "in batch", "out of view")


@dataclass(frozen=True)
class Item:
    """One item; ``document`` and ``sentence`` count from 0, ``sentence`` within its document.

    ``distance_source`` and ``distance_target``: sentences back to the nearest that discloses the answer on that side;
    ``distance`` is the smaller one. None where a set does not tell the sides apart. Items of one ``group`` differ in
    the answer alone, so their outcomes depend on each other; None: on no other's. ``others``: right and wrong
    translations, in this order, in which something else that context decides in this sentence is wrong.
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


@dataclass(frozen=True)
class ItemScores:
    """Log probabilities of an item's right and wrong translations, and what discloses the answer.

    ``context_in_view``: its instance; ``in_batch``: if that does not, what the model reads of the batch's others.
    """

    item: Item
    correct: float
    wrong: tuple[float, ...]
    context_in_view: bool
    in_batch: bool = False

    @property
    def solved(self) -> bool:
        """Whether the right translation is strictly better than all wrong ones."""
        return all(self.correct > wrong for wrong in self.wrong)

    @property
    def group(self) -> int | None:
        """The item's group."""
        return self.item.group


def read_items(path: str | Path) -> tuple[str, list[Item]]:
    """The split and the items of a ``contrastive.json``; UserError, naming the entry, where it is not one."""
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("items"), list) or not isinstance(data.get("split"), str):
        raise UserError(f"{path}: no contrastive set ('split' and a list 'items' are expected)")
    kinds = {
        "id": int,
        "phenomenon": str,
        "detail": str,
        "document": int,
        "sentence": int,
        "distance": int,
        "correct": str,
    }
    items = []
    for number, entry in enumerate(data["items"]):
        for key, kind in kinds.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(key), kind):
                raise UserError(f"{path}: entry {number} of 'items' has no valid {key!r} ({kind.__name__}); correct it")
        wrong = entry.get("wrong")
        if not _lists(wrong, str) or not wrong:
            raise UserError(
                f"{path}: entry {number} of 'items' has no valid 'wrong' (list of at least one text); correct it"
            )
        more = {key: entry[key] for key in OPTIONAL if key in entry}
        for key, value in more.items():
            if not isinstance(value, int):
                raise UserError(f"{path}: entry {number} of 'items' has no valid {key!r} (int); correct it")
        others = entry.get("others", [])
        texts = [text for row in others for text in row] if _lists(others, list) else [None]
        if not _lists(texts, str) or not all(len(row) > 1 for row in others):
            raise UserError(
                f"{path}: entry {number} of 'items' has no valid 'others' (lists of two or more texts); correct it"
            )
        more["others"] = tuple(tuple(map(clean_line, row)) for row in others)
        entry = entry | {"correct": clean_line(entry["correct"])}  # as the corpus that the items belong to
        items.append(Item(**{key: entry[key] for key in kinds}, wrong=tuple(map(clean_line, wrong)), **more))
    if not items:
        raise UserError(f"{path}: the contrastive set has no items")
    return data["split"], items


def _lists(value: object, kind: type) -> bool:
    """Whether a value is a list of such ones."""
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


def score_items(
    scorer: SentenceScorer,
    items: Sequence[Item],
    places: Sequence[Place],
    read: Callable[[int], tuple[TokenLists, TokenLists]],
    encode: Callable[[Sequence[str]], TokenLists],
    progress: Callable[[Iterable], Iterable] = lambda batches: batches,
) -> list[ItemScores]:
    """Scores of all items, in their order, each in the instance in which its sentence is current.

    ``places[i]`` says where instance i stands; ``read(i)`` gives its source and target sentences as token indices;
    ``encode`` turns plain sentences of the target language into token indices.
    All right translations of an instance come from one pass over its reference. A wrong one takes the place of its
    sentence, and the target ends there: what follows cannot change its probability, but where windows lie by the
    target's length it moves them, and so it stays. A scorer of batches is given the instances of the sentences before,
    with their references, so many that the item's is the last of ``scorer.together``.
    Raises UserError if an item's sentence is in no instance or if its right translation is not the reference.
    """
    current = current_in(places)
    texts = list(dict.fromkeys(text for item in items for text in (item.correct, *item.wrong)))
    encoded = dict(zip(texts, encode(texts), strict=True))
    here: dict[int, list[int]] = {}  # instance -> sentences of its target that are items
    for item in items:
        if (item.document, item.sentence) not in current:
            raise UserError(
                f"contrastive item {item.id}: sentence {item.sentence} of document {item.document} is not in the "
                "prepared split; use the items that belong to the corpus"
            )
        number, offset = current[item.document, item.sentence]
        here.setdefault(number, []).append(offset)
    read = cache(read)
    requests: list[Request] = []
    whole: dict[int, int] = {}  # instance -> its request with the whole reference
    # Per item: request of the reference, which of its answers, requests of the wrong ones, what discloses the answer.
    wanted: list[tuple[int, int, list[int], tuple[bool, bool]]] = []
    for item in items:
        name = f"contrastive item {item.id}"
        number, offset = current[item.document, item.sentence]
        if number not in whole:
            whole[number] = len(requests)
            beside = instances_before(item.document, item.sentence, current, scorer.together)
            before = tuple(Beside(*read(one), places[one].first_sentence + 1) for one in beside)
            begins = places[number].first_sentence + 1
            requests.append(Request(*read(number), tuple(here[number]), name, before, begins))
        given = requests[whole[number]]
        source, target = given.source, given.target
        if encoded[item.correct] != target[offset]:
            raise UserError(
                f"{name}: its right translation {item.correct!r} is not the reference of sentence {item.sentence} of "
                f"document {item.document}; use the items that belong to the corpus"
            )
        wrong = range(len(requests), len(requests) + len(item.wrong))
        rest = target[offset + 1 :] if scorer.minds_length else []
        for text in item.wrong:
            other = [*target[:offset], encoded[text], *rest]
            requests.append(replace(given, target=other, asked=(offset,), name=name))
        # Both sides end with the same sentence, but one of them may begin earlier.
        in_view = _discloses(item, (offset + len(source) - len(target), offset))
        in_batch = not in_view and bool(given.before) and _discloses(item, scorer.reach(given.before))
        wanted.append((whole[number], here[number].index(offset), list(wrong), (in_view, in_batch)))
    scores = scorer.score(requests, progress)
    return [
        ItemScores(item, scores[reference][answer], tuple(scores[number][0] for number in wrong), *views)
        for item, (reference, answer, wrong, views) in zip(items, wanted, strict=True)
    ]


def _discloses(item: Item, seen: tuple[int, int]) -> bool:
    """Whether so many sentences before an item's, of the source and of the target, hold what decides it."""
    sides = zip((item.distance_source, item.distance_target), seen, strict=True)
    return any((item.distance if back is None else back) <= reached for back, reached in sides)


def instances_before(
    document: int, sentence: int, current: dict[tuple[int, int], tuple[int, int]], together: int
) -> list[int]:
    """The instances of the sentences that follow each other up to the one given, at most ``together`` with its own."""
    found: list[int] = []
    for number in range(sentence - 1, sentence - together, -1):
        if (document, number) not in current:
            break
        found.append(current[document, number][0])
    return found[::-1]


def current_in(places: Sequence[Place]) -> dict[tuple[int, int], tuple[int, int]]:
    """By (document, sentence): the instance in which the sentence is current, and its number among the target's."""
    found = {}
    for number, place in enumerate(places):
        first, count = place.current or (place.first_sentence, place.sentences)
        for sentence in range(first, first + count):
            found[place.document, sentence] = number, sentence - place.first_sentence
    return found


def accuracy(scores: Sequence[ItemScores]) -> dict:
    """Accuracy in per cent with the number of items, its standard error and that of guessing, and the margin's mean
    (right minus best wrong, natural logarithm).
    """
    solved = [score.solved for score in scores]
    margins = [score.correct - max(score.wrong) for score in scores]
    return {
        "accuracy": 100.0 * sum(solved) / len(scores),
        "standard_error": standard_error(solved, [score.group for score in scores]),
        "chance": 100.0 * math.fsum(1 / (1 + len(score.wrong)) for score in scores) / len(scores),
        "solved": sum(solved),
        "items": len(scores),
        "mean_margin": math.fsum(margins) / len(scores),
    }


def standard_error(solved: Sequence[float], groups: Sequence[int | None]) -> float | None:
    """Standard error of an accuracy, in points, over groups of items that depend on each other; None for one group.

    The variance of a mean over clusters, sum_g (sum_i (x_i - mean))^2 / n^2 times G / (G - 1). An item whose group is
    None is one by itself; where all are, that is mean (1 - mean) / (n - 1).
    """
    mean = sum(solved) / len(solved)
    residuals: dict[tuple, float] = {}
    for number, (outcome, group) in enumerate(zip(solved, groups, strict=True)):
        key = ("item", number) if group is None else ("group", group)
        residuals[key] = residuals.get(key, 0.0) + outcome - mean
    count = len(residuals)
    if count == 1:
        return None
    variance = math.fsum(residual**2 for residual in residuals.values()) * count / (count - 1)
    return 100.0 * math.sqrt(variance) / len(solved)


def bucket_name(number: int, buckets: Sequence[tuple[int, int | None]] = BUCKETS) -> str:
    """The row of a report that a number (a distance) belongs to: ``"0"``, ``"1"``, ``"4-6"``, ``"25+"`` ..."""
    for first, last in buckets:
        if last is None:
            return f"{first}+"
        if first <= number <= last:
            return str(first) if first == last else f"{first}-{last}"
    raise AssertionError("the last bucket is open")


def report(scores: Sequence[ItemScores]) -> dict:
    """Accuracy in total, by phenomenon, by distance, and by distance within each phenomenon.

    Where all items tell the sides apart: also by the source's distance and by the target's. ``context_out_of_view``
    counts items whose answer nothing that the model reads discloses, so that it could not solve them but by luck;
    ``context_in_batch``, if there are any, those whose answer the batch's other sentences alone disclose.
    """
    phenomena = sorted({score.item.phenomenon for score in scores})
    by_phenomenon = {name: [score for score in scores if score.item.phenomenon == name] for name in phenomena}
    result = {
        "total": accuracy(scores),
        "by_phenomenon": {name: accuracy(part) for name, part in by_phenomenon.items()},
        "by_phenomenon_and_view": {name: _by_view(part) for name, part in by_phenomenon.items()},
    }
    sides = SIDES if all(None not in (s.item.distance_source, s.item.distance_target) for s in scores) else ()
    for key in ("distance", *sides):
        result[f"by_{key}"] = _by_distance(scores, key)
        result[f"by_phenomenon_and_{key}"] = {name: _by_distance(part, key) for name, part in by_phenomenon.items()}
    counts = Counter(map(_view, scores))
    in_batch = {"context_in_batch": counts[IN_BATCH]} if counts[IN_BATCH] else {}
    return result | {"context_out_of_view": counts[OUT_OF_VIEW], **in_batch}


def _by_view(scores: Sequence[ItemScores]) -> dict:
    groups = {view: [score for score in scores if _view(score) == view] for view in VIEWS}
    return {view: accuracy(group) for view, group in groups.items() if group}


def _view(score: ItemScores) -> str:
    return IN_VIEW if score.context_in_view else IN_BATCH if score.in_batch else OUT_OF_VIEW


def _by_distance(scores: Sequence[ItemScores], key: str) -> dict:
    groups: dict[str, list[ItemScores]] = {}
    for score in sorted(scores, key=lambda score: getattr(score.item, key)):
        groups.setdefault(bucket_name(getattr(score.item, key)), []).append(score)
    return {name: accuracy(group) for name, group in groups.items()}
