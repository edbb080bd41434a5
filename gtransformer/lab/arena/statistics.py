"""Statistics of an arena: means over seeds, standard errors, and differences from the baseline on the same items."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import BUCKETS, bucket_name, standard_error
from gtransformer.evaluation.metrics import ALIGNED
from gtransformer.evaluation.realignment import ORDER
from gtransformer.lab.items.items import SIDES

Choices = Sequence[Mapping[str, Any]]  # the items of a contrastive result file
MEAN = "mean"  # over the phenomena
DISTANCE_BOTH = "distance_both"  # of items with the same distance on both sides
_ITEM_KEYS = ("id", "phenomenon", *SIDES, "group")  # keys that identify an item


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return ``mean``, ``standard_error`` (over seeds; None for a single one) and ``by_seed``."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "standard_error": error, "by_seed": list(values)}


def scores_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return every score of the runs' score files over seeds, against the untouched text, with its signature.

    Scores over sentences (s-BLEU, TER) are None if sentences had to be aligned by order.
    """
    found = {}
    for key, first in runs[0]["scores"]["raw"].items():
        values = [run["scores"]["raw"][key]["score"] for run in runs]
        found[key] = spread(values) | {"signature": first["signature"], "segments": first["segments"]}
    by_order = (run for run in runs if run.get("alignment", ORDER) == ORDER)
    if any(run["counts"]["misaligned_instances"] for run in by_order):
        found |= {key: None for key in ALIGNED if key in found}
    return found


def contexts_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return CXMI and mean log probability of a token by number of previous sentences, over seeds, with signature."""
    found = {
        name: {key: spread([run["contexts"][name][key] for run in runs]) for key in ("cxmi", "log_probability")}
        for name in runs[0]["contexts"]
    }
    return {"signature": runs[0]["signature"], "tokens": runs[0]["tokens"], "contexts": found}


def accuracies(runs: Sequence[Choices], baseline: Sequence[Choices] | None) -> dict[str, Any]:
    """Return accuracy by phenomenon and by distance; each is a ``cell`` by phenomenon.

    Args:
        runs: one for each seed, all with the same items.
        baseline: runs of the baseline; None for the baseline itself.

    Returns:
        ``by_phenomenon`` {phenomenon: cell}, ``by_distance_source`` and ``by_distance_target`` {distance: {phenomenon:
        cell}}, and ``by_distance_both``, for items whose distance is in the same row on both sides. Only these compare
        systems that read one side with systems that read both. The unweighted mean of the phenomena is added if all are
        present.

    Raises UserError if the runs are not over the same items.
    """
    items = runs[0]
    for run in (*runs, *(baseline or [])):
        if [[one.get(key) for key in _ITEM_KEYS] for one in run] != [
            [one.get(key) for key in _ITEM_KEYS] for one in items
        ]:
            raise UserError("the systems have choices over different items; start in another directory")
    phenomena = sorted({one["phenomenon"] for one in items})
    indices = {name: [i for i, one in enumerate(items) if one["phenomenon"] == name] for name in phenomena}
    result = {"by_phenomenon": _cells(runs, baseline, indices)}
    for side, sides in ((DISTANCE_BOTH, SIDES), *((side, (side,)) for side in SIDES)):
        rows: dict[str, dict[str, Any]] = {}
        for first, _ in BUCKETS:
            row = {bucket_name(first)}
            chosen = {
                name: [i for i in indices[name] if {bucket_name(items[i][side]) for side in sides} == row]
                for name in phenomena
            }
            if any(chosen.values()):
                rows[bucket_name(first)] = _cells(runs, baseline, chosen)
        result[f"by_{side}"] = rows
    return result


def cell(runs: Sequence[Choices], baseline: Sequence[Choices] | None, numbers: Sequence[int]) -> dict[str, Any]:
    """Return the accuracy, in per cent, over some items.

    An item's value is the share of seeds that solve it. Standard errors are over items, clustered by group
    (``contrastive.standard_error``), so they measure the variation between items. That between seeds is in ``by_seed``
    (``error_of`` has both). ``difference`` is from the baseline, item by item. Translations, unlike choices, have no
    ``chance``.
    """
    groups = [runs[0][i].get("group") for i in numbers]
    own = _shares(runs, numbers)
    result = {
        "items": len(numbers),
        "accuracy": 100.0 * statistics.fmean(own),
        "standard_error": standard_error(own, groups),
        "by_seed": _by_seed(runs, numbers),
    }
    if "wrong" in runs[0][0]:
        result["chance"] = 100.0 * statistics.fmean(1 / (1 + len(runs[0][i]["wrong"])) for i in numbers)
    if baseline is not None:
        differences = _shares(runs, numbers, baseline)
        result["difference"] = 100.0 * statistics.fmean(differences)
        result["difference_standard_error"] = standard_error(differences, groups)
        result["difference_by_seed"] = _less(result["by_seed"], _by_seed(baseline, numbers))
    return result


def error_of(found: Mapping[str, Any], of: str = "") -> float | None:
    """Return the standard error of a cell's accuracy, or of its difference (``of`` = "difference_"), over items and
    seeds.

    It is the root of the sum of both squared errors. This counts their common part twice, so it is conservative. With a
    single seed, or in old results without differences by seed, it is the error over items only. None for a single group
    of items.
    """
    items, seeds = found[f"{of}standard_error"], found.get(f"{of}by_seed") or []
    over_seeds = spread(seeds)["standard_error"] if seeds else None
    return items if None in (items, over_seeds) else math.hypot(items, over_seeds)


def _shares(runs: Sequence[Choices], numbers: Sequence[int], baseline: Sequence[Choices] | None = None) -> list[float]:
    """Return the share of seeds that solve each item, minus the baseline's if given."""
    own = [statistics.fmean(run[i]["solved"] for run in runs) for i in numbers]
    return own if baseline is None else _less(own, _shares(baseline, numbers))


def _by_seed(runs: Sequence[Choices], numbers: Sequence[int]) -> list[float]:
    """Return the accuracy of each seed, in per cent."""
    return [100.0 * statistics.fmean(run[i]["solved"] for i in numbers) for run in runs]


def _less(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(values, others, strict=True)]


def _cells(
    runs: Sequence[Choices], baseline: Sequence[Choices] | None, indices: Mapping[str, Sequence[int]]
) -> dict[str, dict[str, Any]]:
    """Return the cells of all phenomena with items, and their unweighted mean if all have items.

    If groups have items of several phenomena (a document has all), the mean's errors are also over groups.
    """
    cells = {name: cell(runs, baseline, numbers) for name, numbers in indices.items() if numbers}
    if len(cells) < len(indices):
        return cells
    mean = mean_cell(list(cells.values()))
    groups = {name: [runs[0][i].get("group") for i in numbers] for name, numbers in indices.items()}
    known = [group for found in groups.values() for group in {*found} - {None}]
    if len(known) > len(set(known)):
        mean["standard_error"] = joint_error([(_shares(runs, indices[name]), found) for name, found in groups.items()])
        if baseline is not None:
            mean["difference_standard_error"] = joint_error(
                [(_shares(runs, indices[name], baseline), found) for name, found in groups.items()]
            )
    return cells | {MEAN: mean}


def joint_error(parts: Sequence[tuple[Sequence[float], Sequence[Any]]]) -> float | None:
    """Return the standard error, in points, of the unweighted mean of the means of parts whose items share groups.

    Args:
        parts: for each of P parts, the values x of its n_p items, and their groups.

    It is the square root of G / (G - 1) times the sum over the G groups of (sum_p r_gp / (P n_p))^2. r_gp is the sum of
    x minus the part's mean over the items of part p in group g. None for a single group.
    """
    count = sum(len(values) for values, _ in parts)
    weighted, groups = [], []
    for values, found in parts:
        mean = statistics.fmean(values)
        weighted += [(value - mean) * count / (len(parts) * len(values)) for value in values]
        groups += found
    return standard_error(weighted, groups)


def mean_cell(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the unweighted mean of cells with independent items; squared errors are added."""
    result: dict[str, Any] = {"items": sum(one["items"] for one in cells)}
    for key in ("chance", "accuracy", "difference"):
        if key in cells[0]:
            result[key] = statistics.fmean(one[key] for one in cells)
    for key in ("standard_error", "difference_standard_error"):
        if key in cells[0]:
            errors = [one[key] for one in cells]
            result[key] = None if None in errors else math.sqrt(sum(error**2 for error in errors)) / len(errors)
    for key in ("by_seed", "difference_by_seed"):
        if key in cells[0]:
            result[key] = [statistics.fmean(values) for values in zip(*(one[key] for one in cells), strict=True)]
    return result
