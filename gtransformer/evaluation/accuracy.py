"""Accuracy on the items of a test set, in total and by kind; items may depend on each other in
groups.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from scipy import stats

from gtransformer.evaluation.significance import MIN_UNITS
from gtransformer.evaluation.suite_files import Item

T = TypeVar("T")

# Distances of the deciding context, in sentences: (first, last) of each row of a report; the last
# row is open.
BUCKETS = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 6), (7, 12), (13, 24), (25, None))


class Judged(Protocol):
    """Whether an item is solved; items of one ``group`` depend on each other, those of None on no
    other.
    """

    solved: bool
    group: int | str | None


@dataclass(frozen=True)
class Outcome:
    """A system's outcome on an item of a published suite; ``detail``: what it was judged by, for
    the result file.
    """

    item: Item
    solved: bool
    detail: dict[str, Any]

    @property
    def group(self) -> str | None:
        """The film or document of the item."""
        return self.item.film

    def to_json(self) -> dict[str, Any]:
        """Return the item and its outcome as a JSON object."""
        shown = {key: getattr(self.item, key) for key in ("id", "phenomenon", "distance", "film")}
        return {**shown, **self.detail, "solved": self.solved}


def accuracy(outcomes: Sequence[Judged]) -> dict[str, Any]:
    """Return accuracy in per cent, its standard error over groups, and the numbers of solved items
    and of all.
    """
    solved = [one.solved for one in outcomes]
    return {
        "accuracy": 100.0 * sum(solved) / len(solved),
        "standard_error": standard_error(solved, [one.group for one in outcomes]),
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
    items: Iterable[T], key: Callable[[T], Any], count: Callable[[list[T]], dict]
) -> dict[str, dict]:
    """Return the result of ``count`` for the items of each key, in the order of the keys; numbers
    are grouped by ``BUCKETS``.

    Items whose key is None are left out.
    """

    def name_of(item: T) -> str:
        return bucket_name(key(item)) if isinstance(key(item), int) else key(item)

    known = sorted((item for item in items if key(item) is not None), key=key)
    return {name: count(list(group)) for name, group in groupby(known, name_of)}


def report(
    items: Sequence[T],
    kinds: Mapping[str, Callable[[T], Any]],
    count: Callable[[Sequence[T]], dict] = accuracy,
) -> dict[str, Any]:
    """Return the result of ``count`` for all items, by kind, and by the other kinds within each
    phenomenon.

    ``kinds``: by name, a function from an item to its key, or None if it has none; one is
    ``phenomenon``.
    """
    result: dict[str, Any] = {"total": count(items)}
    for kind, key in kinds.items():
        result[f"by_{kind}"] = rows(items, key, count)
        if kind != "phenomenon":
            result[f"by_phenomenon_and_{kind}"] = rows(
                items, kinds["phenomenon"], lambda part, key=key: rows(part, key, count)
            )
    return result


def suite_report(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return accuracy in total, by phenomenon, by distance, and by distance within each
    phenomenon.
    """
    return report(
        outcomes, {kind: attrgetter(f"item.{kind}") for kind in ("phenomenon", "distance")}
    )


def sign_tests(baseline: Sequence[Outcome], system: Sequence[Outcome]) -> dict[str, Any]:
    """Return an exact sign test of two systems, two-sided, in total, by phenomenon and by distance,
    as JSON objects.

    A unit is a film; of items that name none, the item. It is better if the system has more of its
    items right.
    """

    def test(items: Sequence[tuple[Outcome, Outcome]]) -> dict[str, Any]:
        gains: Counter[tuple] = Counter()
        for number, (old, new) in enumerate(items):
            gains["item", number if new.group is None else new.group] += new.solved - old.solved
        better, worse = (sum(sign * gain > 0 for gain in gains.values()) for sign in (1, -1))
        p_value = None
        if len(gains) >= MIN_UNITS:
            p_value = (
                float(stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0
            )
        return {
            "better": better,
            "worse": worse,
            "equal": len(gains) - better - worse,
            "p_value": p_value,
        }

    kinds = {
        "phenomenon": lambda pair: pair[0].item.phenomenon,
        "distance": lambda pair: pair[0].item.distance,
    }
    return report(list(zip(baseline, system, strict=True)), kinds, test)
