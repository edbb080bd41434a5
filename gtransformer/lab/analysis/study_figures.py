"""The figure of a convergence study, drawn from its result file alone: scores over sizes, curves over updates.

Nothing is smoothed, cut or left out: score panels show the mean, the lowest and highest seed and every seed as a dot,
panels with curves draw every seed; all axes begin at 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.lab.analysis.figures import new_figure, save_figure, whole_ticks
from gtransformer.lab.report.pages.colours import shades, system_colours

AXES = {
    "length": "input length (tokens)",
    "instances": "training instances",
    "model": "model",
    "task.context-sentences": "sentences of local context",
    "generate.batch-sentences": "sentences translated as one batch",
}
QUANTITIES = {"d_bleu": "d-BLEU", "s_bleu": "s-BLEU", "accuracy": "contrastive accuracy (%)"}


def draw_study(result: Mapping[str, Any], path: str | Path) -> None:
    """Draw all panels side by side (at most two in a row); the PNG appears only when it is complete."""
    panels = [panel for panel in result["panels"] if panel["lines"] and panel["kind"] in DRAW]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(5.6 * columns, 3.9 * rows + 0.5)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, panel in zip(grid, panels, strict=False):
        DRAW[panel["kind"]](axes, panel, result)
        axes.set_title(panel["title"], fontsize=9)
        if panel["kind"] != "attention":  # a picture of its own
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7)
        axes.tick_params(labelsize=7)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    size = "miniature, " if result["miniature"] else ""
    missing = f", {len(result['missing'])} run(s) missing" if result.get("missing") else ""
    figure.suptitle(f"{result['description']}\n({size}corpus: {Path(result['corpus']).name}{missing})", fontsize=10)
    save_figure(figure, path)


def _draw_scores(axes, panel: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """A score over the values of the axis, in the order of the file, evenly spaced as in the paper."""
    quantity = panel.get("quantity", "d_bleu")
    values = list(dict.fromkeys(line["x"] for line in panel["lines"]))
    systems = list(dict.fromkeys(line["system"] for line in panel["lines"]))
    colours = system_colours(result["systems"])
    for system in systems:
        lines = [line for line in panel["lines"] if line["system"] == system and line.get(quantity)]
        if not lines:
            continue
        places = [values.index(line["x"]) for line in lines]
        scores = [line[quantity] for line in lines]
        _errorbars(axes, places, scores, color=colours[system], label=result["systems"][system])
        dots = [(place, value) for place, one in zip(places, scores, strict=True) for value in one["values"]]
        axes.plot(*zip(*dots, strict=True), ".", color=colours[system], alpha=0.4)
    axes.set_xticks(range(len(values)), [f"{value:,}" if isinstance(value, int) else str(value) for value in values])
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # a line along the upper edge stays visible
    axes.set_xlabel(AXES.get(panel["axis"], panel["axis"]), fontsize=8)
    axes.set_ylabel(QUANTITIES[quantity], fontsize=8)


def _errorbars(axes, places: Sequence[float], scores: Sequence[Mapping[str, Any]], **look: Any) -> None:
    """Means over seeds, each with a bar from the lowest seed to the highest."""
    mean = [one["mean"] for one in scores]
    # Where all seeds score alike, the mean may differ from them by rounding; matplotlib refuses negative bars.
    below = [max(0.0, one["mean"] - one["min"]) for one in scores]
    above = [max(0.0, one["max"] - one["mean"]) for one in scores]
    axes.errorbar(places, mean, yerr=[below, above], marker="o", markersize=4, capsize=3, **look)


def _draw_curves(axes, panel: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """A colour a system, a shade of it a line, a stroke a seed; dotted what flat attention over all keys would have."""
    systems = {line["system"] for line in panel["lines"]}
    for line, colour in zip(panel["lines"], _line_colours(panel["lines"], result), strict=True):
        name = result["systems"][line["system"]]
        label = line["label"] if len(systems) == 1 and line["label"] else ", ".join(filter(None, [name, line["label"]]))
        found = [result["runs"][run]["curves"] for run in line["runs"]]
        # The first seed that has the curve, not the first seed: that one may lack it.
        for drawn, curves in enumerate(curves for curves in found if curves.get(line["curve"])):
            look = {"color": colour, "linewidth": 1.0, "alpha": 0.8, "label": None if drawn else label}
            axes.plot(*zip(*curves[line["curve"]], strict=True), **look)
        flat = next(filter(None, (curves.get(f"{line['curve']}_flat") for curves in found)), None)
        if line["flat"] and flat:
            axes.plot(*zip(*flat, strict=True), ":", color=colour, label=f"{label}, if flat")
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # a line along the upper edge stays visible
    axes.set_xlabel("updates", fontsize=8)
    axes.set_ylabel(panel["axis"], fontsize=8)


def _draw_accuracy(axes, panel: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Accuracy by kind of item, a line a row; with a baseline, how much above it the other rows are."""
    base, key = panel.get("baseline"), "difference" if panel.get("baseline") else "by"
    lines = [line for line in panel["lines"] if line[key] and line["label"] != base]
    kinds, colours = list(lines[0][key]) if lines else [], _line_colours(lines, result)
    for number, line in enumerate(lines):
        scores = [line[key][kind] for kind in kinds]
        # Side by side, so that bars at the same height can be told apart.
        places = [place + 0.06 * (number - (len(lines) - 1) / 2) for place in range(len(kinds))]
        _errorbars(axes, places, scores, linewidth=1, color=colours[number], label=line["label"])
    axes.axhline(0, color="black", linewidth=0.8, label=base)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set_xlabel(panel["by"].replace("_", ", "), fontsize=8)
    axes.set_ylabel(f"accuracy (%){f' above that of {base}' if base else ''}", fontsize=8)


def _draw_attention(axes, panel: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Attention across a batch by sentence: queries down, keys across, from 0 to the largest of the panel."""
    maps = result["runs"][panel["lines"][0]["runs"][0]]["batch_attention"]["maps"]
    mean = next(one["mean"] for one in maps if one["part"] == f"{panel['axis']}_batch")
    top = max(map(max, mean))
    image = axes.imshow(mean, cmap="viridis", vmin=0, vmax=top, extent=(0.5, len(mean) + 0.5, len(mean) + 0.5, 0.5))
    axes.figure.colorbar(image, ax=axes).ax.tick_params(labelsize=7)
    whole_ticks(axes.xaxis, axes.yaxis)
    axes.set_xlabel(f"sentence (largest: {top:.3f})", fontsize=8)
    axes.set_ylabel("sentence", fontsize=8)


def _line_colours(lines: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> list[str]:
    """Its system's colour in the whole figure for each line; where several are of one system, shades of it."""
    systems, colours = [line["system"] for line in lines], system_colours(result["systems"])
    left = {system: iter(shades(colours[system], systems.count(system))) for system in systems}
    return [next(left[system]) for system in systems]


DRAW = {  # by kind; tables are printed, not drawn
    "scores": _draw_scores,
    "curves": _draw_curves,
    "accuracy": _draw_accuracy,
    "attention": _draw_attention,
}
