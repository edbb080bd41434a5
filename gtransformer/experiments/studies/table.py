"""The numbers of a study: mean and spread over seeds, and a table of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gtransformer.experiments.studies.check import TABLE
from gtransformer.experiments.text_table import align

MORE = {"s_bleu_lc": "s-BLEU lower-cased", "ter": "TER"}  # of tables, where they were taken
SCORE = "d_bleu"  # the paper's Figures 2 and 7; a Transformer over documents has no aligned sentences


def spread(values: Sequence[float]) -> dict[str, Any]:
    """``values``, their ``mean``, ``std`` (of a sample), ``standard_error``, ``min`` and ``max``; of one no errors."""
    std = statistics.stdev(values) if len(values) > 1 else None
    return {
        "values": list(values),
        "mean": statistics.fmean(values),
        "std": std,
        "standard_error": None if std is None else std / math.sqrt(len(values)),
        "min": min(values),
        "max": max(values),
    }


def summary(panels: Sequence[dict[str, Any]], results: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The panels with their numbers.

    Points and rows get the d-BLEU of the test set and, where all seeds have them, s-BLEU and (rows) ``MORE``; lines
    with curves the last and lowest value of each seed.
    """
    return [panel | {"lines": [line | _numbers(panel, line, results) for line in panel["lines"]]} for panel in panels]


def _numbers(panel: dict, line: dict, results: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    runs = [results[name] for name in line["runs"]]
    if panel["kind"] == "curves":
        values = [[value for _, value in run["curves"].get(line["curve"], [])] for run in runs]
        if not all(values):
            return {"last": None, "lowest": None}
        return {"last": spread([one[-1] for one in values]), "lowest": spread([min(one) for one in values])}
    numbers = {
        SCORE: _over_seeds(runs, SCORE),
        "s_bleu": _over_seeds(runs, "s_bleu"),
        "signature": runs[0]["scores"][SCORE]["signature"],
    }
    for key in MORE if panel["kind"] == TABLE else ():
        if values := _over_seeds(runs, key):
            numbers |= {key: values, f"{key}_signature": runs[0]["scores"][key]["signature"]}
    return numbers


def _over_seeds(runs: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any] | None:
    scores = [run["scores"].get(kind) for run in runs]
    return None if None in scores else spread([score["score"] for score in scores])


def table(result: Mapping[str, Any]) -> str:
    """A line for each point, row or line of every panel, and the signatures of the scores."""
    blocks, signatures = [], set()
    for panel in filter(lambda panel: panel["lines"], result["panels"]):
        more = [key for key in MORE if panel["kind"] == TABLE and any(key in line for line in panel["lines"])]
        rows = [_head(panel, more)]
        for line in panel["lines"]:
            name = result["systems"][line["system"]]
            if panel["kind"] == "curves":
                name = ", ".join(filter(None, [name, line["label"]]))
                rows.append([name, shown(line["last"]), shown(line["lowest"])])
                continue
            signatures.add(f"BLEU: {line['signature']}")
            scores = [shown(line[SCORE]), shown(line["s_bleu"])]
            if panel["kind"] == TABLE:
                rows.append([line["label"], *scores, *(shown(line.get(key)) for key in more)])
                signatures |= {f"{MORE[key]}: {line[f'{key}_signature']}" for key in more if key in line}
            else:
                rows.append([name, str(line["x"]), *scores])
        blocks.append(f"{panel['title']}\n{align(rows, range(0))}")
    seeds = max(len(line["runs"]) for panel in result["panels"] for line in panel["lines"])
    foot = [f"mean (lowest to highest) of {seeds} seed(s); s-BLEU where all sentences are aligned"]
    foot += [f"missing: {name} {reason}" for name, reason in result.get("missing", {}).items()]
    return "\n\n".join([*blocks, "\n".join([*foot, *sorted(signatures)])])


def _head(panel: Mapping[str, Any], more: Sequence[str]) -> list[str]:
    if panel["kind"] == "curves":
        return ["line", "last", "lowest"]
    bleu = ["d-BLEU", "s-BLEU"]
    return [*([] if panel["kind"] == TABLE else ["system"]), panel["axis"], *bleu, *(MORE[key] for key in more)]


def shown(numbers: Mapping[str, Any] | None) -> str:
    """``30.50 (29.80 to 31.10)``."""
    return "-" if numbers is None else f"{numbers['mean']:.2f} ({numbers['min']:.2f} to {numbers['max']:.2f})"
