"""Contrastive items of the demo corpus: does the model prefer the right translation to the wrong ones, in its document?

An item names one sentence of a split, its right translation and one or more wrong ones, and how many sentences back the
context stands that decides between them. It counts as solved if the right one is strictly more probable than every
wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.data.places import Place
from gtransformer.errors import UserError
from gtransformer.evaluation.sentence_scores import Request, Sentences, SentenceScorer
from gtransformer.files import read_json

# Distances of the deciding context, in sentences: (first, last) of each row of the report.
BUCKETS = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 6), (7, 12), (13, 24), (25, None))


@dataclass(frozen=True)
class Item:
    """One item; ``document`` and ``sentence`` count from 0, ``sentence`` within its document."""

    id: int
    phenomenon: str
    detail: str
    document: int
    sentence: int
    distance: int
    correct: str
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class ItemScores:
    """Log probabilities of an item's right and wrong translations, and whether its context was in the model's view."""

    item: Item
    correct: float
    wrong: tuple[float, ...]
    context_in_view: bool

    @property
    def solved(self) -> bool:
        """Whether the right translation is strictly better than all wrong ones."""
        return all(self.correct > wrong for wrong in self.wrong)


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
        if not isinstance(wrong, list) or not wrong or not all(isinstance(text, str) for text in wrong):
            raise UserError(
                f"{path}: entry {number} of 'items' has no valid 'wrong' (list of at least one text); correct it"
            )
        items.append(Item(**{key: entry[key] for key in kinds}, wrong=tuple(wrong)))
    if not items:
        raise UserError(f"{path}: the contrastive set has no items")
    return data["split"], items


def score_items(
    scorer: SentenceScorer,
    items: Sequence[Item],
    places: Sequence[Place],
    read: Callable[[int], tuple[Sentences, Sentences]],
    encode: Callable[[Sequence[str]], Sentences],
    progress: Callable[[Iterable], Iterable] = lambda batches: batches,
) -> list[ItemScores]:
    """Scores of all items, in their order, each in the instance in which its sentence is current.

    ``places[i]`` says where instance i stands; ``read(i)`` gives its source and target sentences as token indices;
    ``encode`` turns plain sentences of the target language into token indices.
    All right translations of an instance come from one pass over its reference. A wrong one takes the place of its
    sentence, and the target ends there: what follows cannot change its probability.
    Raises UserError if an item's sentence is in no instance or if its right translation is not the reference.
    """
    current = current_in(places)
    texts = list(dict.fromkeys(text for item in items for text in (item.correct, *item.wrong)))
    encoded = dict(zip(texts, encode(texts), strict=True))
    requests: list[Request] = []
    whole: dict[int, int] = {}  # instance -> its request with the whole reference
    # Per item: request of the reference, sentence of it, requests of the wrong ones, whether its context is in view.
    wanted: list[tuple[int, int, list[int], bool]] = []
    for item in items:
        if (item.document, item.sentence) not in current:
            raise UserError(
                f"contrastive item {item.id}: sentence {item.sentence} of document {item.document} is not in the "
                "prepared split; use the items that belong to the corpus"
            )
        number, offset = current[item.document, item.sentence]
        if number not in whole:
            whole[number] = len(requests)
            requests.append(Request(*read(number)))
        source, target = requests[whole[number]].source, requests[whole[number]].target
        if encoded[item.correct] != target[offset]:
            raise UserError(
                f"contrastive item {item.id}: its right translation {item.correct!r} is not the reference of sentence "
                f"{item.sentence} of document {item.document}; use the items that belong to the corpus"
            )
        wrong = range(len(requests), len(requests) + len(item.wrong))
        requests += [Request(source, [*target[:offset], encoded[text]]) for text in item.wrong]
        # Both sides end with the same sentence, but one of them may begin earlier.
        before = offset + max(0, len(source) - len(target))
        wanted.append((whole[number], offset, list(wrong), item.distance <= before))
    scores = scorer.score(requests, progress)
    return [
        ItemScores(item, scores[reference][offset], tuple(scores[number][offset] for number in wrong), in_view)
        for item, (reference, offset, wrong, in_view) in zip(items, wanted, strict=True)
    ]


def current_in(places: Sequence[Place]) -> dict[tuple[int, int], tuple[int, int]]:
    """By (document, sentence): the instance in which the sentence is current, and its number among the target's."""
    found = {}
    for number, place in enumerate(places):
        first, count = place.current or (place.first_sentence, place.sentences)
        for sentence in range(first, first + count):
            found[place.document, sentence] = number, sentence - place.first_sentence
    return found


def accuracy(scores: Sequence[ItemScores]) -> dict:
    """Accuracy in per cent with the number of items, and the margin's mean (right minus best wrong, natural
    logarithm).
    """
    solved = sum(score.solved for score in scores)
    margins = [score.correct - max(score.wrong) for score in scores]
    return {
        "accuracy": 100.0 * solved / len(scores),
        "solved": solved,
        "items": len(scores),
        "mean_margin": math.fsum(margins) / len(scores),
    }


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

    ``context_out_of_view`` counts items whose deciding sentence is not in their instance: no model could solve them but
    by luck.
    """
    phenomena = sorted({score.item.phenomenon for score in scores})
    by_phenomenon = {name: [score for score in scores if score.item.phenomenon == name] for name in phenomena}
    return {
        "total": accuracy(scores),
        "by_phenomenon": {name: accuracy(part) for name, part in by_phenomenon.items()},
        "by_distance": _by_distance(scores),
        "by_phenomenon_and_distance": {name: _by_distance(part) for name, part in by_phenomenon.items()},
        "context_out_of_view": sum(not score.context_in_view for score in scores),
    }


def _by_distance(scores: Sequence[ItemScores]) -> dict:
    groups: dict[str, list[ItemScores]] = {}
    for score in sorted(scores, key=lambda score: score.item.distance):
        groups.setdefault(bucket_name(score.item.distance), []).append(score)
    return {name: accuracy(group) for name, group in groups.items()}
