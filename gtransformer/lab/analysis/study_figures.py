"""The figure of a convergence study, drawn only from its result file: scores over sizes, curves over updates.

Nothing is smoothed, cut or left out. Score panels show the mean, the lowest and highest seed, and every seed as a dot.
Panels with curves draw every seed. All axes start at 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.lab.analysis.colours import LINES, shades, system_looks
from gtransformer.lab.analysis.figures import legend_below, new_figure, save_figure

AXES = {
    "length": "input length (tokens)",
    "instances": "training instances",
    "model": "model",
}
BY = {"distance_target": "distance of the deciding context on the target side (sentences)"}
MEANING = {  # of lines and markers, by kind of panel
    "scores": "Markers: mean of the seeds. Bars: lowest to highest seed. Dots: each seed.",
    "curves": "One line for each seed.",
    "accuracy": "Markers: mean of the seeds. Bars: lowest to highest seed.",
}
QUANTITIES = {"d_bleu": "d-BLEU", "s_bleu": "s-BLEU", "accuracy": "contrastive accuracy (%)"}


def draw_study(result: Mapping[str, Any], path: str | Path) -> None:
    """Draw all panels side by side (at most two in a row); the PNG appears only when it is complete."""
    panels = [panel for panel in result["panels"] if panel["lines"] and panel["kind"] in DRAW]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(5.4 * columns, 4.3 * rows + 0.8)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, panel in zip(grid, panels, strict=False):
        DRAW[panel["kind"]](axes, panel, result)
        axes.set_title(panel["title"], fontsize=10)
        axes.grid(alpha=0.3)
        legend_below(axes)
        axes.tick_params(labelsize=8)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    size = "small models, " if result["miniature"] else ""
    missing = f", {len(result['missing'])} run(s) missing" if result.get("missing") else ""
    figure.suptitle(f"{result['description']}\n({size}corpus: {Path(result['corpus']).name}{missing})", fontsize=12)
    seeds = max(len(line["runs"]) for panel in panels for line in panel["lines"])
    meaning = dict.fromkeys(MEANING[panel["kind"]] for panel in panels)
    figure.supxlabel(" ".join(meaning) if seeds > 1 else "One seed; no error bars.", fontsize=9)
    save_figure(figure, path)


def _draw_scores(axes, panel: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Draw a score over the values of the axis, in the order of the file, evenly spaced as in the paper."""
    quantity = panel.get("quantity", "d_bleu")
    values = list(dict.fromkeys(line["x"] for line in panel["lines"]))
    systems = list(dict.fromkeys(line["system"] for line in panel["lines"]))
    looks = system_looks(result["systems"])
    for system in systems:
        lines = [line for line in panel["lines"] if line["system"] == system and line.get(quantity)]
        if not lines:
            continue
        positions = [values.index(line["x"]) for line in lines]
        scores = [line[quantity] for line in lines]
        _errorbars(axes, positions, scores, label=result["systems"][system], **looks[system])
        dots = [(position, value) for position, one in zip(positions, scores, strict=True) for value in one["values"]]
        axes.plot(*zip(*dots, strict=True), ".", color=looks[system]["color"], alpha=0.4)
    axes.set_xticks(range(len(values)), [f"{value:,}" if isinstance(value, int) else str(value) for value in values])
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # a line along the upper edge stays visible
    axes.set_xlabel(AXES.get(panel["axis"], panel["axis"]), fontsize=9)
    axes.set_ylabel(QUANTITIES[quantity], fontsize=9)


def _errorbars(axes, positions: Sequence[float], scores: Sequence[Mapping[str, Any]], **look: Any) -> None:
    """Draw means over seeds, each with a bar from the lowest seed to the highest."""
    mean = [one["mean"] for one in scores]
    # With equal scores the mean may differ by rounding, and matplotlib rejects negative bars.
    below = [max(0.0, one["mean"] - one["min"]) for one in scores]
    above = [max(0.0, one["max"] - one["mean"]) for one in scores]
    axes.errorbar(positions, mean, yerr=[below, above], markersize=5, capsize=3, **look)


def _draw_curves(axes, panel: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Draw curves: a colour per system, a shade per line, a line style per seed; uniform attention is dotted."""
    systems = {line["system"] for line in panel["lines"]}
    for line, style in zip(panel["lines"], _line_looks(panel["lines"], result), strict=True):
        name = result["systems"][line["system"]]
        label = line["label"] if len(systems) == 1 and line["label"] else ", ".join(filter(None, [name, line["label"]]))
        found = [result["runs"][run]["curves"] for run in line["runs"]]
        # The first seed with the curve: the first seed of all may lack it.
        for drawn, curves in enumerate(curves for curves in found if curves.get(line["curve"])):
            points = curves[line["curve"]]
            look = {"linewidth": 1.1, "markersize": 4, "markevery": max(1, len(points) // 8)}
            axes.plot(*zip(*points, strict=True), label=None if drawn else label, **look, **style)
        flat = next(filter(None, (curves.get(f"{line['curve']}_flat") for curves in found)), None)
        if line["flat"] and flat:
            axes.plot(*zip(*flat, strict=True), ":", color=style["color"], label=f"{label}, if flat")
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # a line along the upper edge stays visible
    axes.set_xlabel("training updates", fontsize=9)
    axes.set_ylabel(panel["axis"], fontsize=9)


def _draw_accuracy(axes, panel: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Draw accuracy by kind of item, a line per row; with a baseline, the difference from it."""
    base, key = panel.get("baseline"), "difference" if panel.get("baseline") else "by"
    lines = [line for line in panel["lines"] if line[key] and line["label"] != base]
    kinds, looks = list(lines[0][key]) if lines else [], _line_looks(lines, result)
    for number, line in enumerate(lines):
        scores = [line[key][kind] for kind in kinds]
        # Shifted, so that bars at the same height are visible.
        positions = [position + 0.06 * (number - (len(lines) - 1) / 2) for position in range(len(kinds))]
        _errorbars(axes, positions, scores, linewidth=1, label=line["label"], **looks[number])
    axes.axhline(0, color="black", linewidth=0.8, label=base)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set_xlabel(BY.get(panel["by"], panel["by"].replace("_", ", ")), fontsize=9)
    axes.set_ylabel(f"accuracy (percentage points above {base})" if base else "accuracy (%)", fontsize=9)


def _line_looks(lines: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each line's style: its system's in the whole figure; several lines of one system differ in shade and
    stroke.
    """
    systems, looks, found = [line["system"] for line in lines], system_looks(result["systems"]), []
    for position, system in enumerate(systems):
        look, number = looks[system], systems[:position].count(system)
        colour = shades(look["color"], systems.count(system))[number]
        stroke = LINES[(LINES.index(look["linestyle"]) + number) % len(LINES)]
        found.append(look | {"color": colour, "linestyle": stroke})
    return found


DRAW = {  # by kind; tables are printed, not drawn
    "scores": _draw_scores,
    "curves": _draw_curves,
    "accuracy": _draw_accuracy,
}
