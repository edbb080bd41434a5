"""The results of an arena as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gtransformer.experiments.arena.result import MEAN
from gtransformer.experiments.text_table import align

SCORES = {"s_bleu": "s-BLEU", "d_bleu": "d-BLEU", "ter": "TER"}


def arena_text(result: Mapping[str, Any]) -> str:
    """Scores, then accuracy over distance and differences from the baseline: mean of the phenomena, then each."""
    systems, seeds = result["systems"], len(result["seeds"])
    blocks = [scores_table(systems)]
    first = next(iter(systems.values()))["accuracy"]
    kinds = list(first["by_phenomenon"])
    for kind in sorted(kinds, key=lambda kind: kind != MEAN):
        for side in ("target", "source"):
            title = "mean of the phenomena" if kind == MEAN else kind
            blocks.append(f"{title}, by distance of disclosure on the {side} side\n{reach_table(systems, kind, side)}")
    signatures = {one["signature"] for system in systems.values() for one in system["scores"].values() if one}
    blocks.append(
        "\n".join(
            [
                f"scores: mean of {seeds} seed(s) and its standard error over them; {', '.join(sorted(signatures))}",
                "accuracy in per cent and its standard error over items, items that depend on each other together; an "
                "item counts by how many of the seeds solve it",
                f"in brackets: points above '{result['baseline']}' on the same items, and the standard error of that",
                f"all: {result['updates']} updates from '{result['start']['recipe']}', a sentence Transformer of "
                f"{result['start']['updates']} updates",
            ]
        )
    )
    return "\n\n".join(blocks)


def scores_table(systems: Mapping[str, Mapping[str, Any]]) -> str:
    """A row a system: scores, validation perplexity, parameters and seconds, the latter means over seeds."""
    rows = [["system", *SCORES.values(), "validation ppl", "parameters", "training s", "translation s"]]
    for name, system in systems.items():
        seconds = {key: [one[key] for one in system["seconds"]] for key in ("training", "translation")}
        perplexities = [one for one in system["validation_perplexity"] if one is not None]
        rows.append(
            [
                name,
                *(_score(system["scores"].get(key)) for key in SCORES),
                f"{_mean(perplexities):.3f}" if perplexities else "-",
                f"{system['parameters']:,}" if system["parameters"] else "-",
                *(f"{_mean(values):.0f}" for values in seconds.values()),
            ]
        )
    return align(rows)


def reach_table(systems: Mapping[str, Mapping[str, Any]], kind: str, side: str) -> str:
    """A row a system, a column a distance; two rows a system where it is compared with the baseline."""
    cells = {name: system["accuracy"][f"by_distance_{side}"] for name, system in systems.items()}
    some = next(iter(cells.values()))
    distances = [distance for distance, row in some.items() if kind in row]
    rows = [["system", *distances]]
    rows.append(["(items)", *(str(some[distance][kind]["items"]) for distance in distances)])
    rows.append(["(chance)", *(f"{some[distance][kind]['chance']:.1f}" for distance in distances)])
    for name, by_distance in cells.items():
        found = [by_distance[distance][kind] for distance in distances]
        rows.append([name, *(f"{one['accuracy']:.1f}{_error(one['standard_error'])}" for one in found)])
        if all("difference" in one for one in found):
            differences = [f"({one['difference']:+.1f}{_error(one['difference_standard_error'])})" for one in found]
            rows.append(["", *differences])
    return align(rows)


def _score(score: Mapping[str, Any] | None) -> str:
    return "-" if score is None else f"{score['mean']:.2f}{_error(score['standard_error'], 2)}"


def _error(error: float | None, digits: int = 1) -> str:
    return "" if error is None else f" ±{error:.{digits}f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
