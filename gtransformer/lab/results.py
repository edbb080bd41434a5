"""The results of an experiment: one table of numbers (CSV and Markdown), translations with curves,
two figures."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import re
import statistics
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from scipy import stats

from gtransformer.evaluation.score import score_text
from gtransformer.evaluation.significance import compare
from gtransformer.files import atomic_write, read_json
from gtransformer.lab.experiment import DONE, Experiment, Run

COLUMNS = ("system", "seed", "metric", "value", "interval", "commit", "machine", "command")
TESTED = ("s_bleu", "d_bleu")  # also over documents
SHOWN = {"s_bleu": "s-BLEU", "d_bleu": "d-BLEU", "accuracy": "accuracy"}
LOGGED = re.compile(r"\| (?:train_inner|valid) \| (\{.*\})")
VALIDATED = re.compile(r"valid_(loss|ppl|entropy_.*)")  # kept of the last validation
Curves = dict[str, dict[int, float]]  # name of a series -> update -> value


def read_log(path: Path) -> Curves:
    """Return the series of a training's log: train_loss, train_wps, valid_loss, entropies, by
    update.

    If a resumed training repeats updates, the later values count.
    """
    series: Curves = {}
    for text in LOGGED.findall(path.read_text(encoding="utf-8", errors="replace")):
        entry = json.loads(text)
        prefix = "" if "num_updates" in entry else "valid_"
        updates = int(entry[f"{prefix}num_updates"])
        keys = ("loss", "wps") if not prefix else [key for key in entry if key.startswith(prefix)]
        for key in keys:
            if key in entry:
                series.setdefault(key if prefix else f"train_{key}", {})[updates] = float(
                    entry[key]
                )
    return series


def numbers_of(run: Run) -> dict[str, float]:
    """Return the numbers of a finished run by metric; times in seconds, accuracies in per cent."""
    folder, found = run.folder, {}
    scores = read_json(folder / "test.scores.json")
    for name, score in next(iter(scores["scores"].values())).items():
        found[name] = score["score"]
    if (folder / "contrastive.json").is_file():
        choices = read_json(folder / "contrastive.json")
        found["accuracy"] = choices["total"]["accuracy"]
        found |= {
            f"accuracy at {name}": one["accuracy"] for name, one in choices["by_distance"].items()
        }
    curves = read_log(folder / "train.log")
    # A budget of minutes or a stop without improvement decides it, so it is read from the log.
    found["updates"] = max(update for series in curves.values() for update in series)
    found |= {
        name: values[max(values)] for name, values in curves.items() if VALIDATED.fullmatch(name)
    }
    speeds = list(curves.get("train_wps", {}).values())  # none in a short training
    if len(speeds) > 1:
        # The first has the start of the program in it.
        found["words_per_second"] = statistics.median(speeds[1:])
    for name, record in (("training", "train"), ("translation", "generate.test")):
        times = read_json(folder / f"{record}.json")
        found[f"seconds of {name}"] = times["seconds"]
    return found


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean over seeds, +- t times its standard error; None for one
    seed."""
    if len(values) < 2:
        return None
    half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return mean - half, mean + half


def rows_of(experiment: Experiment) -> list[dict[str, object]]:
    """Return the lines of results.csv.

    A line has the value of one run (seed), the mean of a row with its interval over seeds, or a
    difference from the baseline over the seeds of both: metric ``s_bleu - BASELINE``, seed ``mean``
    (interval over seeds) or ``documents`` (counts summed over seeds, interval over test documents).
    """
    runs: dict[str, dict[int, Run]] = {}
    for run in experiment.runs:
        runs.setdefault(run.system, {})[run.seed] = run
    numbers = {
        system: {seed: numbers_of(run) for seed, run in seeds.items()}
        for system, seeds in runs.items()
    }
    reference = experiment.prepared(experiment.runs[0]) / "text" / f"test.{_target(experiment)}"
    found = []
    for system, seeds in runs.items():
        for seed, run in seeds.items():
            record = read_json(run.folder / DONE)
            about = {
                "commit": record["commit"],
                "machine": record["machine"],
                "command": command_of(record),
            }
            found += [
                _line(system, seed, name, value) | about
                for name, value in numbers[system][seed].items()
            ]
        own = numbers[system]
        for name in own[min(own)]:
            values = [one[name] for one in own.values() if name in one]
            found.append(
                _line(system, "mean", name, statistics.fmean(values), mean_interval(values))
            )
        other = seeds[min(seeds)].row.baseline or experiment.settings.baseline
        if other in runs and other != system:  # --rows may leave it out
            found += _differences(system, other, numbers, runs, reference)
    return found


def _differences(
    system: str,
    other: str,
    numbers: Mapping,
    runs: Mapping[str, Mapping[int, Run]],
    reference: Path,
) -> list[dict[str, object]]:
    """Return the lines of a row's differences from its baseline, over the seeds that both have."""
    seeds, found = sorted(runs[system].keys() & runs[other].keys()), []
    if not seeds:
        return []
    for key in SHOWN:
        if all(key in numbers[name][seed] for name in (system, other) for seed in seeds):
            values = [numbers[system][seed][key] - numbers[other][seed][key] for seed in seeds]
            mean = statistics.fmean(values)
            found.append(_line(system, "mean", f"{key} - {other}", mean, mean_interval(values)))
    texts = {
        name: [
            score_text(reference, runs[name][seed].folder / "test.txt", metrics=["bleu"])
            for seed in seeds
        ]
        for name in (other, system)
    }
    segments = {
        name: [one.scores["raw"].segments for one in several] for name, several in texts.items()
    }
    for key in TESTED:
        test = compare(segments, key)[system]
        found.append(_line(system, "documents", f"{key} - {other}", test.difference, test.interval))
    return found


def _target(experiment: Experiment) -> str:
    return experiment.recipe(experiment.runs[0]).task["target-lang"]


def _line(
    system: str, seed: object, metric: str, value: float, interval: tuple | None = None
) -> dict[str, object]:
    shown = "" if interval is None else "{:.4f} to {:.4f}".format(*interval)
    return {
        "system": system,
        "seed": seed,
        "metric": metric,
        "value": f"{value:.6g}",
        "interval": shown,
    }


def command_of(record: Mapping) -> str:
    """Return what a run's training was: the recipe and its changes, without paths."""
    words = record["commands"][0]
    changes = [
        word
        for before, word in zip(words, words[1:], strict=False)
        if before == "--set" and "/" not in word
    ]
    return " ".join(["gtransformer run", words[1], *changes])


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write results.csv."""
    with atomic_write(path) as stream:
        table = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """Return a table with a line for each system: means, differences, intervals over seeds and over
    documents."""
    found = {}
    for row in rows:
        metric, difference, _ = str(row["metric"]).partition(" - ")
        found[row["system"], str(row["seed"]), metric, bool(difference)] = row
    systems = list(dict.fromkeys(one["system"] for one in rows))
    shown = [
        key for key in SHOWN if any((system, "mean", key, False) in found for system in systems)
    ]
    head = ["system"]
    for key in shown:
        head += [
            SHOWN[key],
            "difference",
            "over seeds",
            *(["over documents"] if key in TESTED else []),
        ]
    lines = [head, ["---"] * len(head)]
    for system in systems:
        cells = [str(system)]
        for key in shown:
            mean, less = (found.get((system, "mean", key, part), {}) for part in (False, True))
            tested = found.get((system, "documents", key, True), {})
            cells += [
                _cell(mean.get("value")),
                _cell(less.get("value")),
                _cell(less.get("interval")),
            ]
            cells += [_cell(tested.get("interval"))] if key in TESTED else []
        lines.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(text: str | None) -> str:
    """Return numbers with one decimal."""
    return " ".join(word if word == "to" else f"{float(word):.1f}" for word in (text or "").split())


def write_results(experiment: Experiment) -> str:
    """Write results.csv, results.md, translations.tar.xz and the figures into the experiment's
    folder.

    The archive has every run's translation, the reference (of a generated corpus only) and
    curves.csv. Returns the table.
    """
    folder, rows = experiment.folder, rows_of(experiment)
    write_csv(folder / "results.csv", rows)
    table = markdown(rows)
    (folder / "results.md").write_text(table, encoding="utf-8")
    curves = {run.name: read_log(run.folder / "train.log") for run in experiment.runs}
    lines = [
        f"{name},{series},{update},{value:g}\n"
        for name, found in curves.items()
        for series, values in found.items()
        for update, value in values.items()
    ]
    with tarfile.open(folder / "translations.tar.xz", "w:xz") as packed:
        for run in experiment.runs:
            packed.add(run.folder / "test.txt", f"{run.name}.txt")
        if experiment.generated:  # others' texts may have licences that do not allow copies
            reference = (
                experiment.prepared(experiment.runs[0]) / "text" / f"test.{_target(experiment)}"
            )
            packed.add(reference.resolve(), "reference.txt")
        text = "".join(["run,series,update,value\n", *lines]).encode()
        entry = tarfile.TarInfo("curves.csv")
        entry.size = len(text)
        packed.addfile(entry, io.BytesIO(text))
    draw_curves(curves, folder / "curves.png")
    if any(str(row["metric"]).startswith("accuracy at") for row in rows):
        draw_reach(rows, folder / "reach.png")
    return table


def draw_curves(curves: Mapping[str, Curves], path: Path) -> None:
    """Draw the validation loss of all runs over updates, in bits a token."""
    figure, (axes,) = new_figure(7, 5)
    for name, series in curves.items():
        if "valid_loss" in series:
            axes.plot(series["valid_loss"].keys(), series["valid_loss"].values(), label=name)
    axes.set(xlabel="updates", ylabel="validation loss (bits a token)")
    axes.legend(fontsize=6)
    figure.savefig(path)


def draw_reach(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    """Draw contrastive accuracy by distance of the deciding sentence, a line for each system (mean
    over seeds)."""
    figure, (axes,) = new_figure(7, 5)
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if (row["system"], row["seed"]) == (system, "mean")]
        points = {str(row["metric"]).removeprefix("accuracy at "): float(str(row["value"]))
                  for row in own if str(row["metric"]).startswith("accuracy at ")}  # fmt: skip
        axes.plot(points.keys(), points.values(), marker="o", label=system)
    axes.set(xlabel="sentences back to the deciding one", ylabel="accuracy (%)")
    axes.legend(fontsize=6)
    figure.savefig(path)


def new_figure(width: float, height: float, panels: int = 1):
    """Return a matplotlib figure with a size in inches, and the axes of its panels."""
    # fairseq enables the logs of all libraries.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    return figure, figure.subplots(1, panels, squeeze=False)[0]
