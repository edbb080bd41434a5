"""The results of an arena as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gtransformer.experiments.arena.budget import PER_UPDATE, budget_words
from gtransformer.experiments.arena.result import MEAN
from gtransformer.experiments.text_table import align

SCORES = {"s_bleu": "s-BLEU", "d_bleu": "d-BLEU", "chrf": "chrF", "ter": "TER"}
ALL = "all"  # the context that a system takes
MEMORY = {"training": "training MiB", "training_gpu": "GPU MiB", "translation": "translation MiB"}


def arena_text(result: Mapping[str, Any]) -> str:
    """Scores, then accuracy over distance and differences from the baseline: mean of the phenomena, then each.

    Of a corpus without a set that shows reach, scores alone.
    """
    systems, seeds = result["systems"], len(result["seeds"])
    blocks, notes = [align(score_rows(systems))], []
    reach = _have(systems, "accuracy")
    if reach:
        notes += [
            "accuracy in per cent and its standard error over items, items that depend on each other together; an "
            "item counts by how many of the seeds solve it"
        ]
        kinds = list(next(iter(systems.values()))["accuracy"]["by_phenomenon"])
        for kind in sorted(kinds, key=lambda kind: kind != MEAN):
            title = "mean of the phenomena" if kind == MEAN else kind
            for side in ("target", "source"):
                table = reach_table(systems, kind, side)
                blocks.append(f"{title}, by distance of disclosure on the {side} side\n{table}")
    if _have(systems, "generative"):
        title = f"what was translated: {MEAN} of the phenomena, by distance of disclosure on the target side"
        blocks.append(f"{title}\n{reach_table(systems, MEAN, 'target', 'generative')}")
        notes += [
            "translated: sentences of the test documents that need context and have the right form, in per cent, mean "
            "of the phenomena"
        ]
    if _have(systems, "cxmi"):
        signature = next(iter(systems.values()))["cxmi"]["signature"]
        notes.append(f"CXMI: nats per token, with all the context that a system takes; {signature}")
    if any(PER_UPDATE in system for system in systems.values()):
        notes.append("tokens/update: target tokens of the current sentences of an update; mean of an epoch")
    if _have(systems, "peak_bytes"):
        notes.append("MiB: the most that the program had in memory, of a GPU what its tensors took; mean of the seeds")
    scores = (score_of(system, key) for system in systems.values() for key in SCORES)
    signatures = {one["signature"] for one in scores if one}
    blocks.append(
        "\n".join(
            [
                f"scores: mean of {seeds} seed(s) and its standard error over them; {', '.join(sorted(signatures))}",
                *notes,
                f"in brackets: points above '{result['baseline']}' on the same items, and the standard error of that"
                if reach
                else f"corpus {result['corpus']['name']}: it has no items that show reach and no grammar to judge "
                "what was translated",
                *origin_lines(result),
                f"all: {terms_line(result)}",
            ]
        )
    )
    return "\n\n".join(blocks)


def _have(systems: Mapping[str, Mapping[str, Any]], key: str) -> bool:
    """Whether all systems have a part of the result, which those of earlier versions may lack."""
    return all(key in system for system in systems.values())


def terms_line(result: Mapping[str, Any]) -> str:
    """What all systems were trained for, and from what."""
    words, start = budget_words(result), result["start"]
    if start is None:
        return f"{words} from random weights"
    return f"{words} from '{start['recipe']}', a sentence Transformer of {start['updates']} updates"


def origin_lines(result: Mapping[str, Any]) -> list[str]:
    """Where systems of other arenas come from, a line for each of these arenas."""
    return [_origin(one, result["baseline"]) for one in result.get("beside", [])]


def _origin(beside: Mapping[str, Any], baseline: str) -> str:
    known = [word for word in (beside["machine"]["processor"], (beside.get("commit") or "")[:7]) if word]
    score, names = _score(beside["baseline"]["s_bleu"]), ", ".join(beside["systems"])
    return f"of another arena ({', '.join(known)}), compared with its '{baseline}' (s-BLEU {score}): {names}"


def score_rows(systems: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """A heading, and a row a system: scores, validation perplexity, parameters, seconds and memory, means over seeds.

    Columns that no system has (results of earlier versions) are left out.
    """
    keys = [key for key in SCORES if any(score_of(system, key) for system in systems.values())]
    judged, gained = _have(systems, "generative"), _have(systems, "cxmi")
    sized = any(PER_UPDATE in system for system in systems.values())
    updated = len({count for system in systems.values() for count in system.get("updates", [])}) > 1
    peaks = [key for key in MEMORY if any(_peak(system, key) for system in systems.values())]
    more = [*(["translated"] if judged else []), *(["CXMI"] if gained else []), "validation ppl", "parameters"]
    rows = [["system", *(SCORES[key] for key in keys), *more, *(["updates"] if updated else [])]]
    rows[0] += ["tokens/update"] if sized else []
    rows[0] += ["training s", "translation s", *(MEMORY[key] for key in peaks)]
    for name, system in systems.items():
        seconds = {key: [one[key] for one in system["seconds"]] for key in ("training", "translation")}
        perplexities = [one for one in system["validation_perplexity"] if one is not None]
        rows.append(
            [
                name,
                *(_score(score_of(system, key)) for key in keys),
                *([_accuracy(system["generative"]["by_phenomenon"][MEAN])] if judged else []),
                *([_gain(system["cxmi"]["contexts"][ALL]["cxmi"])] if gained else []),
                f"{_mean(perplexities):.3f}" if perplexities else "-",
                f"{system['parameters']:,}" if system["parameters"] else "-",
                *([f"{_mean(system['updates']):.0f}" if "updates" in system else "-"] if updated else []),
                *([f"{system[PER_UPDATE]:,.0f}" if PER_UPDATE in system else "-"] if sized else []),
                *(f"{_mean(values):.0f}" for values in seconds.values()),
                *(_peak(system, key) or "-" for key in peaks),
            ]
        )
    return rows


def distance_rows(systems: Mapping[str, Mapping[str, Any]], errors: bool = True) -> list[list[str]]:
    """A heading, and a row a system: s-BLEU, d-BLEU, and the mean of the phenomena by distance on the target side."""
    reach = {name: system["accuracy"]["by_distance_target"] for name, system in systems.items()}
    distances = [distance for distance, row in next(iter(reach.values())).items() if MEAN in row]
    rows = [["system", "s-BLEU", "d-BLEU", *distances]]
    for name, system in systems.items():
        found = [score_of(system, key) for key in ("s_bleu", "d_bleu")]
        cells = [reach[name][distance][MEAN] for distance in distances]
        accuracy = [_accuracy(cell) if errors else f"{cell['accuracy']:.1f}" for cell in cells]
        rows.append([name, *(_score(one, 1, errors) for one in found), *accuracy])
    return rows


def reach_table(systems: Mapping[str, Mapping[str, Any]], kind: str, side: str, what: str = "accuracy") -> str:
    """A row a system, a column a distance; two rows a system where it is compared with the baseline.

    ``what``: the ``accuracy`` of choices, or ``generative``, of what was translated.
    """
    cells = {name: system[what][f"by_distance_{side}"] for name, system in systems.items()}
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
            differences = [f"({one['difference']:+.1f}{_error(one['difference_standard_error'])})" for one in found]
            rows.append(["", *differences])
    return align(rows)


def score_of(system: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """A score: where sentences had to be aligned anew, that of this alignment."""
    return system["scores"].get(key) or system.get("aligned", {}).get(key)


def _accuracy(cell: Mapping[str, Any]) -> str:
    return f"{cell['accuracy']:.1f}{_error(cell['standard_error'])}"


def _gain(cxmi: Mapping[str, Any]) -> str:
    return f"{cxmi['mean']:.4f}{_error(cxmi['standard_error'], 4)}"


def _peak(system: Mapping[str, Any], key: str) -> str | None:
    found = system.get("peak_bytes", {}).get(key)
    return None if found is None else f"{found['mean'] / 2**20:,.0f}"


def _score(score: Mapping[str, Any] | None, digits: int = 2, errors: bool = True) -> str:
    if score is None:
        return "-"
    return f"{score['mean']:.{digits}f}{_error(score['standard_error'] if errors else None, digits)}"


def _error(error: float | None, digits: int = 1) -> str:
    return "" if error is None else f" ±{error:.{digits}f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
