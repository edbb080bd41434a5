"""The numbers of a study: mean and spread over seeds, and a table of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

SCORE = "d_bleu"  # the paper's Figures 2 and 7; a Transformer over documents has no aligned sentences


def spread(values: Sequence[float]) -> dict[str, Any]:
    """``values``, their ``mean``, ``std`` (of a sample; null for a single one), ``min`` and ``max``."""
    return {
        "values": list(values),
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
    }


def summary(panels: Sequence[dict[str, Any]], results: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The panels with their numbers.

    Points get the d-BLEU of the test set and, where all seeds have one, the s-BLEU; lines with curves the last and
    lowest value of each seed.
    """
    return [panel | {"lines": [line | _numbers(panel, line, results) for line in panel["lines"]]} for panel in panels]


def _numbers(panel: dict, line: dict, results: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    runs = [results[name] for name in line["runs"]]
    if panel["kind"] == "scores":
        sentence = [run["scores"]["s_bleu"] for run in runs]
        return {
            SCORE: spread([run["scores"][SCORE]["score"] for run in runs]),
            "s_bleu": None if None in sentence else spread([score["score"] for score in sentence]),
            "signature": runs[0]["scores"][SCORE]["signature"],
        }
    values = [[value for _, value in run["curves"].get(line["curve"], [])] for run in runs]
    if not all(values):
        return {"last": None, "lowest": None}
    return {"last": spread([one[-1] for one in values]), "lowest": spread([min(one) for one in values])}


def table(result: Mapping[str, Any]) -> str:
    """A line for each point or line of every panel, and the signature of the scores."""
    blocks, signatures = [], set()
    for panel in filter(lambda panel: panel["lines"], result["panels"]):
        scores = panel["kind"] == "scores"
        rows = [["system", panel["axis"], "d-BLEU", "s-BLEU"] if scores else ["line", "last", "lowest"]]
        for line in panel["lines"]:
            name = result["systems"][line["system"]]
            if scores:
                rows.append([name, str(line["x"]), shown(line[SCORE]), shown(line["s_bleu"])])
                signatures.add(line["signature"])
            else:
                rows.append(
                    [", ".join(filter(None, [name, line["label"]])), shown(line["last"]), shown(line["lowest"])]
                )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        blocks.append("\n".join([panel["title"], *lines]))
    seeds = max(len(line["runs"]) for panel in result["panels"] for line in panel["lines"])
    foot = [f"mean (lowest to highest) of {seeds} seed(s); s-BLEU where all sentences are aligned"]
    foot += [f"missing: {name} {reason}" for name, reason in result.get("missing", {}).items()]
    return "\n\n".join([*blocks, "\n".join([*foot, *(f"BLEU: {one}" for one in sorted(signatures))])])


def shown(numbers: Mapping[str, Any] | None) -> str:
    """``30.50 (29.80 to 31.10)``."""
    return "-" if numbers is None else f"{numbers['mean']:.2f} ({numbers['min']:.2f} to {numbers['max']:.2f})"
