"""The figure of a convergence study, drawn from its result file alone: scores over sizes, curves over updates.

Nothing is smoothed, cut or left out: score panels show the mean, the lowest and highest seed and every seed as a dot,
panels with curves draw every seed; all axes begin at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gtransformer.analysis.figures import new_figure, save_figure

AXES = {"length": "input length (tokens)", "instances": "training instances", "model": "model"}


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
    """d-BLEU over the values of the axis, in the order of the file, evenly spaced as in the paper."""
    values = list(dict.fromkeys(line["x"] for line in panel["lines"]))
    systems = list(dict.fromkeys(line["system"] for line in panel["lines"]))
    for number, system in enumerate(systems):
        lines = [line for line in panel["lines"] if line["system"] == system]
        places = [values.index(line["x"]) for line in lines]
        scores = [line["d_bleu"] for line in lines]
        mean = [one["mean"] for one in scores]
        # Where all seeds score alike, the mean may differ from them by rounding; matplotlib refuses negative bars.
        below = [max(0.0, one["mean"] - one["min"]) for one in scores]
        above = [max(0.0, one["max"] - one["mean"]) for one in scores]
        color = f"C{number}"
        name = result["systems"][system]
        axes.errorbar(places, mean, yerr=[below, above], marker="o", markersize=4, capsize=3, color=color, label=name)
        dots = [(place, value) for place, one in zip(places, scores, strict=True) for value in one["values"]]
        axes.plot(*zip(*dots, strict=True), ".", color=color, alpha=0.4)
    axes.set_xticks(range(len(values)), [f"{value:,}" if isinstance(value, int) else str(value) for value in values])
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # a line along the upper edge stays visible
    axes.set_xlabel(AXES[panel["axis"]], fontsize=8)
    axes.set_ylabel("d-BLEU", fontsize=8)


def _draw_curves(axes, panel: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """A colour a line, a stroke a seed; dotted what flat attention over all keys would have."""
    systems = {line["system"] for line in panel["lines"]}
    for number, line in enumerate(panel["lines"]):
        name = result["systems"][line["system"]]
        label = line["label"] if len(systems) == 1 and line["label"] else ", ".join(filter(None, [name, line["label"]]))
        found = [result["runs"][run]["curves"] for run in line["runs"]]
        # The first seed that has the curve, not the first seed: that one may lack it.
        for drawn, curves in enumerate(curves for curves in found if curves.get(line["curve"])):
            look = {"color": f"C{number}", "linewidth": 1.0, "alpha": 0.8}
            axes.plot(*zip(*curves[line["curve"]], strict=True), label=None if drawn else label, **look)
        flat = next(filter(None, (curves.get(f"{line['curve']}_flat") for curves in found)), None)
        if line["flat"] and flat:
            axes.plot(*zip(*flat, strict=True), ":", color=f"C{number}", label=f"{label}, if flat")
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # a line along the upper edge stays visible
    axes.set_xlabel("updates", fontsize=8)
    axes.set_ylabel(panel["axis"], fontsize=8)


DRAW = {"scores": _draw_scores, "curves": _draw_curves}  # by kind; tables are printed, not drawn
