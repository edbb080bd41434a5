"""The results of an arena as plain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gtransformer.evaluation.metrics import DEFAULT_TITLES as SCORES
from gtransformer.evaluation.text_table import align
from gtransformer.lab.arena.budget import PER_UPDATE, budget_words
from gtransformer.lab.arena.statistics import DISTANCE_BOTH, MEAN, error_of
from gtransformer.lab.items.items import SIDES
from gtransformer.lab.records import shown_difference, shown_interval
from gtransformer.provenance import short_commit

ALL_CONTEXT = "all"  # key of the results with all context that a system takes
SOURCE, TARGET = SIDES
SIDE_TITLES = {TARGET: " on the target side", SOURCE: " on the source side"}
MEMORY = {"training": "training MiB", "training_gpu": "GPU MiB", "translation": "translation MiB"}
# Notes on parts of the results, printed if systems have them.
NOTES = {
    "accuracy": "accuracy in per cent, mean of the seeds, and its standard error over items (clustered if they depend "
    "on each other) and over seeds; all seeds have one start",
    "generative": "translated: sentences of the test documents that need context and have the right form, in per cent, "
    "mean of the phenomena",
    "cxmi": "CXMI: nats per token, with all context that a system takes; SIGNATURE\n"
    "log q: log probability of a reference token with that context; CXMI is the gain over the same model "
    "without context, which may be bad, so log q is the absolute quality with context",
    PER_UPDATE: "tokens/update: target tokens of an update's current sentences; mean of an epoch",
    "peak_bytes": "MiB: peak memory of the program, on a GPU of its tensors; mean of the seeds",
}


def arena_text(result: Mapping[str, Any]) -> str:
    """Return scores, then accuracy by distance with differences from the baseline. Tables are for the mean of the
    phenomena, by distance on both sides and on each, then for each phenomenon.

    A corpus without a set by distance has only scores.
    """
    systems, seeds = result["systems"], len(result["seeds"])
    blocks, reach = (
        [align(score_rows(systems)), *difference_table(systems, result["baseline"])],
        _have(systems, "accuracy"),
    )
    if reach:
        kinds = list(next(iter(systems.values()))["accuracy"]["by_phenomenon"])
        for kind in sorted(kinds, key=lambda kind: kind != MEAN):
            title = "mean of the phenomena" if kind == MEAN else kind
            for side in (DISTANCE_BOTH, *(SIDE_TITLES if kind == MEAN else ())):
                table = reach_table(systems, kind, side)
                blocks.append(f"{title}, by distance of disclosure{distance_title(side)}\n{table}")
    if _have(systems, "generative"):
        # Few test sentences have the same distance on both sides.
        title = f"what was translated: {MEAN} of the phenomena, by distance of disclosure{distance_title(TARGET)}"
        blocks.append(f"{title}\n{reach_table(systems, MEAN, TARGET, 'generative')}")
    scores = (score_of(system, key) for system in systems.values() for key in SCORES)
    signatures = ", ".join(sorted({one["signature"] for one in scores if one}))
    notes = [f"scores: mean of {seeds} seed(s) and its standard error over them; {signatures}"]
    notes += [text for key, text in NOTES.items() if _have(systems, key, some=key == PER_UPDATE)]
    if "cxmi" in next(iter(systems.values())):
        found = {system["cxmi"]["signature"] for system in systems.values() if "cxmi" in system}
        notes = [note.replace("SIGNATURE", ", ".join(sorted(found))) for note in notes]
    if reach:
        end = f"in brackets: points above '{result['baseline']}' on the same items, and their standard error"
    else:
        end = f"corpus {result['corpus']['name']}: it has no contrastive items and no grammar to judge what was "
        end += "translated"
    commits = [short_commit(commit) for commit in result.get("commits", [])]
    several = [f"its programs ran at several commits: {', '.join(commits)}"] if len(commits) > 1 else []
    blocks.append("\n".join([*notes, end, *several, f"all: {terms_line(result)}"]))
    return "\n\n".join(blocks)


def _have(systems: Mapping[str, Mapping[str, Any]], key: str, some: bool = False) -> bool:
    """Return whether all systems, or some, have a part of the result; results of earlier versions may lack it."""
    return (any if some else all)(key in system for system in systems.values())


def terms_line(result: Mapping[str, Any]) -> str:
    """Return the budget and the start of all systems."""
    words, start = budget_words(result), result["start"]
    if start is None:
        return f"{words} from random weights"
    return f"{words} from '{start['recipe']}', a sentence Transformer of {start['updates']} updates"


def score_rows(systems: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return a heading and a row per system: scores, perplexity, parameters, seconds and memory, means over seeds.

    Columns that no system has (earlier versions) are left out, and updates if they are equal.
    """
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        title: lambda system, key=key: _shown(score_of(system, key))
        for key, title in SCORES.items()
        if any(score_of(system, key) for system in systems.values())
    }
    if _have(systems, "generative"):
        columns["translated"] = lambda system: _accuracy(system["generative"]["by_phenomenon"][MEAN])
    if _have(systems, "cxmi"):
        for title, key in (("CXMI", "cxmi"), ("log q", "log_probability")):
            columns[title] = lambda system, key=key: _shown(system["cxmi"]["contexts"][ALL_CONTEXT][key], 4)
    columns["validation ppl"] = lambda system: _mean(system["validation_perplexity"], 3)
    columns["parameters"] = lambda system: f"{system['parameters']:,}" if system["parameters"] else "-"
    if len({count for system in systems.values() for count in system.get("updates", [])}) > 1:
        columns["updates"] = lambda system: _mean(system.get("updates", []))
    if _have(systems, PER_UPDATE, some=True):
        columns["tokens/update"] = lambda system: f"{system[PER_UPDATE]:,.0f}" if PER_UPDATE in system else "-"
    for key in ("training", "translation"):
        columns[f"{key} s"] = lambda system, key=key: _mean([one[key] for one in system["seconds"]])
    for key, title in MEMORY.items():
        if any(system.get("peak_bytes", {}).get(key) for system in systems.values()):
            columns[title] = lambda system, key=key: _mebibytes(system.get("peak_bytes", {}).get(key))
    rows = [[name, *(cell(system) for cell in columns.values())] for name, system in systems.items()]
    return [["system", *columns], *rows]


def difference_table(systems: Mapping[str, Mapping[str, Any]], baseline: str) -> list[str]:
    """Return the differences from the baseline in a list; none in results of earlier versions."""
    found = {name: system["difference"] for name, system in systems.items() if "difference" in system}
    titles = [title for score in ("s-BLEU", "d-BLEU") for title in (f"{score} (over seeds)", "over documents")]
    rows = [
        [name, *(cell for one in keys.values() for cell in (shown_difference(one), shown_interval(one)))]
        for name, keys in found.items()
    ]
    title = f"difference from '{baseline}' with 95 % intervals, over seeds and over test documents"
    return [f"{title}\n{align([['system', *titles], *rows])}"] if rows else []


def distance_title(side: str) -> str:
    """Return the part of a table's title about this distance."""
    return SIDE_TITLES.get(side, ", the same on both sides")


def reach_table(systems: Mapping[str, Mapping[str, Any]], kind: str, side: str, what: str = "accuracy") -> str:
    """Return a row per system and a column per distance; with the baseline's comparison two rows per system.

    ``side``: which distance; ``what``: the ``accuracy`` of choices, or ``generative``, of translations.
    """
    cells = {name: system[what][f"by_{side}"] for name, system in systems.items()}
    some = next(iter(cells.values()))
    distances = [distance for distance, row in some.items() if kind in row]
    rows = [["system", *distances]]
    rows.append(["(items)", *(str(some[distance][kind]["items"]) for distance in distances)])
    if all("chance" in some[distance][kind] for distance in distances):
        rows.append(["(chance)", *(f"{some[distance][kind]['chance']:.1f}" for distance in distances)])
    for name, by_distance in cells.items():
        found = [by_distance[distance][kind] for distance in distances]
        rows.append([name, *map(_accuracy, found)])
        if all("difference" in one for one in found):
            rows.append(
                ["", *(f"({_signed(one['difference'])}{_error(error_of(one, 'difference_'))})" for one in found)]
            )
    return align(rows)


def score_of(system: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """Return a score; if sentences had to be realigned, that of the realignment."""
    return system["scores"].get(key) or system.get("aligned", {}).get(key)


def _accuracy(cell: Mapping[str, Any]) -> str:
    return f"{cell['accuracy']:.1f}{_error(error_of(cell))}"


def _signed(points: float) -> str:
    return f"{round(points, 1) + 0.0:+.1f}"  # no -0.0


def _shown(found: Mapping[str, Any] | None, digits: int = 2) -> str:
    """Return a mean over seeds and its standard error."""
    if found is None:
        return "-"
    return f"{found['mean']:.{digits}f}{_error(found['standard_error'], digits)}"


def _error(error: float | None, digits: int = 1) -> str:
    return "" if error is None else f" ±{error:.{digits}f}"


def _mean(values: Sequence[float | None], digits: int = 0) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.{digits}f}" if known else "-"


def _mebibytes(found: Mapping[str, Any] | None) -> str:
    return "-" if found is None else f"{found['mean'] / 2**20:,.0f}"
