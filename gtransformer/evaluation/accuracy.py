"""Accuracy on the items of a test set, in total and by kind; items may depend on each other in
groups.

Generative accuracy: does a system's translation contain the form that the context requires? A
translation is right if its last sentence, lower-cased and without ASCII punctuation, contains the
lower-cased expected word, as in the scorer of ctxpro (Wicks and Post 2023).
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.evaluation.significance import MIN_UNITS
from gtransformer.preprocess.characters import one_form
from gtransformer.preprocess.plain_text import divided, read_sentences
from gtransformer.preprocess.suites import CTXPRO_BORDER, Item, expects_word

T = TypeVar("T")

# Distances of the deciding context, in sentences: (first, last) of each row of a report; the last
# row is open.
BUCKETS = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 6), (7, 12), (13, 24), (25, None))


@dataclass(frozen=True)
class Outcome:
    """A system's outcome on an item of a published suite; ``detail``: what it was judged by, for
    the result file.
    """

    item: Item
    solved: bool
    detail: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the item and its outcome as a JSON object."""
        shown = {key: getattr(self.item, key) for key in ("id", "phenomenon", "distance", "film")}
        return {**shown, **self.detail, "solved": self.solved}


def accuracy(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return accuracy in per cent, its standard error over groups, and the numbers of solved items
    and of all.
    """
    solved = [outcome.solved for outcome in outcomes]
    return {
        "accuracy": 100.0 * sum(solved) / len(solved),
        "standard_error": standard_error(solved, [outcome.item.film for outcome in outcomes]),
        "solved": sum(solved),
        "items": len(solved),
    }


def standard_error(solved: Sequence[float], groups: Sequence[int | str | None]) -> float | None:
    """Return the standard error of an accuracy, in points, over groups of dependent items; None for
    one group.

    The variance of a mean over clusters is sum_g (sum_i (x_i - mean))^2 / n^2 times G / (G - 1). An
    item without a group (None) is a cluster by itself. If all are, the variance is mean (1 - mean)
    / (n - 1).
    """
    mean = sum(solved) / len(solved)
    residuals: Counter[tuple] = Counter()
    for number, (outcome, group) in enumerate(zip(solved, groups, strict=True)):
        residuals["item", number if group is None else group, group is None] += outcome - mean
    count = len(residuals)
    if count == 1:
        return None
    variance = math.fsum(residual**2 for residual in residuals.values()) * count / (count - 1)
    return 100.0 * math.sqrt(variance) / len(solved)


def bucket_name(number: int) -> str:
    """Return the name of a distance's row in a report: ``"0"``, ``"1"``, ``"4-6"``, ``"25+"``
    ...
    """
    first, last = next(
        (first, last) for first, last in BUCKETS if last is None or first <= number <= last
    )
    return f"{first}+" if last is None else str(first) if first == last else f"{first}-{last}"


def rows(
    units: Iterable[T], key: Callable[[T], Any], count: Callable[[list[T]], dict]
) -> dict[str, dict]:
    """Return the result of ``count`` for the units of each key, in the order of the keys; numbers
    are grouped by ``BUCKETS``.

    Units whose key is None are left out.
    """

    def name_of(unit: T) -> str:
        return bucket_name(key(unit)) if isinstance(key(unit), int) else key(unit)

    # Sorted, since groupby joins neighbours only.
    known = sorted((unit for unit in units if key(unit) is not None), key=key)
    return {name: count(list(group)) for name, group in groupby(known, name_of)}


def suite_report(
    units: Sequence[T],
    count: Callable[[Sequence[T]], dict] = accuracy,
    item_of: Callable[[T], Item] = attrgetter("item"),
) -> dict[str, Any]:
    """Return the result of ``count`` for all units, by phenomenon, by distance, and by distance
    within each phenomenon.

    ``units``: outcomes, or what ``item_of`` gives the item of.
    """

    def phenomenon(unit: T) -> str:
        return item_of(unit).phenomenon

    def by_distance(some: Iterable[T]) -> dict[str, dict]:
        return rows(some, lambda unit: item_of(unit).distance, count)

    return {
        "total": count(units),
        "by_phenomenon": rows(units, phenomenon, count),
        "by_distance": by_distance(units),
        "by_phenomenon_and_distance": rows(units, phenomenon, by_distance),
    }


def sign_tests(baseline: Sequence[Outcome], system: Sequence[Outcome]) -> dict[str, Any]:
    """Return an exact sign test of two systems, two-sided, in total, by phenomenon and by distance,
    as JSON objects.

    A unit is a film; of items that name none, the item. It is better if the system has more of its
    items right.
    """

    from scipy import stats  # takes a second

    def test(pairs: Sequence[tuple[Outcome, Outcome]]) -> dict[str, Any]:
        gains: Counter[int | str] = Counter()
        for number, (old, new) in enumerate(pairs):
            # An item without a film is a unit by itself; names of films are no numbers.
            gains[new.item.film or number] += new.solved - old.solved
        better = sum(gain > 0 for gain in gains.values())
        worse = sum(gain < 0 for gain in gains.values())
        p_value = None
        if len(gains) >= MIN_UNITS:
            changed = better + worse
            p_value = float(stats.binomtest(better, changed).pvalue) if changed else 1.0
        equal = len(gains) - better - worse
        return {"better": better, "worse": worse, "equal": equal, "p_value": p_value}

    pairs = list(zip(baseline, system, strict=True))
    return suite_report(pairs, test, lambda pair: pair[0].item)


WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def contains(text: str, expected: str) -> bool:
    """Return whether a text contains a word, by the rule of ctxpro's scorer, which leaves the
    word's punctuation.

    An elided ``t'`` is never found therefore, in no system and not in the reference.
    """
    # ASCII punctuation alone, as ctxpro's own scorer has it: a dash of Unicode stays a word.
    words = " ".join(one_form(text).lower().translate(WITHOUT_PUNCTUATION).split())
    return f" {one_form(expected).lower()} " in f" {words} "


def last_sentence(lang: str) -> Callable[[str], str]:
    """Return a function from a line to its last sentence, found by the splitter of ctxpro's scorer
    for this language.

    Text before ctxpro's separator ``<eos>`` is left out first. Raises UserError for a language
    that the splitter does not know.
    """
    from sentence_splitter import SentenceSplitter, SentenceSplitterException  # slow to import

    try:
        splitter = SentenceSplitter(language=two_letters(lang))
    except SentenceSplitterException:
        what = f"the sentence splitter of ctxpro's scorer does not know the language {lang}"
        raise UserError(f"-t {lang}: {what}") from None

    def last(line: str) -> str:
        # Outputs with context, such as those published with ctxpro, have its separator.
        text = line.rpartition(CTXPRO_BORDER)[2].strip()
        return (splitter.split(text) or [text])[-1]

    return last


def judge(items: Sequence[Item], outputs: Sequence[str]) -> list[Outcome]:
    """Judge the translation of each item's sentence; items that expect no word are left out."""
    pairs = zip(items, outputs, strict=True)
    return [
        Outcome(item, contains(text, item.expected), {"output": text})
        for item, text in pairs
        if expects_word(item.expected)
    ]


def read_outputs(path: Path, items: Sequence[Item]) -> list[str]:
    """Return the line, or the last line of the document, of each item. Raise UserError for another
    number of them.
    """
    lines = read_sentences(path)  # once: it may be a pipe
    outputs = [document[-1] for document in divided(path, lines)[0]] if None in lines else lines
    if len(outputs) != len(items):
        raise UserError(
            f"{path}: {len(outputs)} lines or documents, but the suite has {len(items)} items; "
            "write the translation of each item on a line, or documents that each start with <d>"
        )
    return outputs
