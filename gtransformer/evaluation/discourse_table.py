"""F1 of pronoun and formality translation as a table of plain text."""

from __future__ import annotations

from collections.abc import Mapping

from gtransformer.evaluation.text_table import align


def table(results: Mapping[str, Mapping]) -> str:
    """F1, precision and recall in per cent, overall and by class, a column per system."""
    first = next(iter(results.values()))
    rows = [["translation of", "", *results, "in the reference"]]
    for name, part in first.items():
        for value in ("f1", "precision", "recall"):
            cells = [_percent(result[name][value]) for result in results.values()]
            rows.append([name, {"f1": "F1"}.get(value, value), *cells, str(part["reference"]) if value == "f1" else ""])
        for x, counts in part["by_class"].items():
            cells = [_percent(result[name]["by_class"][x]["f1"]) for result in results.values()]
            rows.append([name, f"F1, {x}", *cells, str(counts["reference"])])
    return align(rows, range(2, len(rows[0])))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
