"""Accuracy of a model's choices or translations; items may depend on each other in groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

# Distances of the deciding context, in sentences: (first, last) of each row of a report; the last row is open.
BUCKETS = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 6), (7, 12), (13, 24), (25, None))


class Choice(Protocol):
    """Log probabilities of a right translation and of wrong ones; items of one ``group`` depend on each other."""

    correct: float
    wrong: tuple[float, ...]
    group: int | str | None


def is_solved(choice: Choice) -> bool:
    """Return whether the right translation is strictly better than all wrong ones."""
    return all(choice.correct > wrong for wrong in choice.wrong)


def ties(choices: Sequence[Choice]) -> dict[str, int]:
    """Return ``{"tied": n}``, the items whose right translation is as probable as a wrong one: they have the same
    tokens. It is empty without such items.
    """
    count = sum(one.correct in one.wrong for one in choices)
    return {"tied": count} if count else {}


def accuracy(choices: Sequence[Choice]) -> dict[str, Any]:
    """Return accuracy in per cent, number of items, standard error, chance accuracy, and mean margin.

    The margin is right minus best wrong, natural logarithm.
    """
    found = share_solved([is_solved(one) for one in choices], [one.group for one in choices])
    found["chance"] = 100.0 * math.fsum(1 / (1 + len(one.wrong)) for one in choices) / len(choices)
    found["mean_margin"] = math.fsum(one.correct - max(one.wrong) for one in choices) / len(choices)
    return found


def share_solved(solved: Sequence[bool], groups: Sequence[int | str | None]) -> dict[str, Any]:
    """Return accuracy in per cent, its standard error over ``groups``, and the numbers of solved items and of all."""
    return {
        "accuracy": 100.0 * sum(solved) / len(solved),
        "standard_error": standard_error(solved, groups),
        "solved": sum(solved),
        "items": len(solved),
    }


def standard_error(solved: Sequence[float], groups: Sequence[int | str | None]) -> float | None:
    """Return the standard error of an accuracy, in points, over groups of dependent items; None for one group.

    The variance of a mean over clusters is sum_g (sum_i (x_i - mean))^2 / n^2 times G / (G - 1). An item without a
    group (None) is a cluster by itself. If all are, the variance is mean (1 - mean) / (n - 1).
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


def bucket_name(number: int) -> str:
    """Return the name of a distance's row in a report: ``"0"``, ``"1"``, ``"4-6"``, ``"25+"`` ..."""
    first, last = next((first, last) for first, last in BUCKETS if last is None or first <= number <= last)
    return f"{first}+" if last is None else str(first) if first == last else f"{first}-{last}"


def rows(items: Iterable[T], key: Callable[[T], Any], count: Callable[[list[T]], dict]) -> dict[str, dict]:
    """Return the result of ``count`` for the items of each key, in the order of the keys; numbers are grouped by
    ``BUCKETS``.

    Items whose key is None are left out.
    """
    groups: dict[str, list[T]] = {}
    for item in sorted((item for item in items if key(item) is not None), key=key):
        found = key(item)
        groups.setdefault(bucket_name(found) if isinstance(found, int) else found, []).append(item)
    return {name: count(group) for name, group in groups.items()}


def report(
    items: Sequence[T],
    count: Callable[[Sequence[T]], dict],
    first: str,
    kinds: Mapping[str, Callable[[T], Any]],
    within: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the result of ``count`` for all items, and by kind.

    Args:
        kinds: by name, a function from an item to its key, or None if it has none: by_KIND.
        first: the kind whose groups are also broken down by the kinds in ``within``: by_FIRST_and_KIND.
    """
    result: dict[str, Any] = {"total": count(items)}
    for kind, key in kinds.items():
        result[f"by_{kind}"] = rows(items, key, count)
    for kind in within:
        result[f"by_{first}_and_{kind}"] = rows(
            items, kinds[first], lambda part, kind=kind: rows(part, kinds[kind], count)
        )
    return result
