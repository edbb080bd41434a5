"""Figures that need no screen, and files that appear only when they are complete."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gtransformer.files import atomic_write
from gtransformer.lab.analysis.colours import families, system_looks


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure with a size in inches; matplotlib is imported here, as that is slow."""
    # fairseq enables all libraries' logs; matplotlib would list the machine's fonts, PIL the file's chunks.
    for name in ("matplotlib", "PIL"):
        logging.getLogger(name).setLevel(logging.WARNING)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def whole_ticks(*directions: Any) -> None:
    """Set ticks of axes (``axes.xaxis``, ``axes.yaxis``) to whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    for axis in directions:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a PNG, which appears under ``path`` only when it is complete."""
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format="png")


def legend_below(axes: Any, columns: int = 2) -> None:
    """Put the legend of a panel below it, where it hides no data."""
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=columns, fontsize=8, frameon=False, handlelength=3.5
    )


def draw_reach(
    result: Mapping[str, Any], path: str | Path, terms: str, side: str, error_of: Callable[[Mapping[str, Any]], Any]
) -> None:
    """Draw accuracy by distance of disclosure, with standard errors; the PNG appears only when it is complete.

    A row of panels for the mean of the phenomena and for each of them, a column for each family of systems.

    Args:
        result: of an arena; ``side``: which of its distances; ``error_of``: returns a cell's error.
        terms: of the arena, for the title.
    """
    rows = {name: system["accuracy"][f"by_{side}"] for name, system in result["systems"].items()}
    some, looks, columns = next(iter(rows.values())), system_looks(rows), families(list(rows))
    kinds = sorted({kind for row in some.values() for kind in row}, key=lambda kind: (kind != "mean", kind))
    figure = new_figure(max(7.0, 4.2 * len(columns)), 2.4 * len(kinds) + 2)
    grid = figure.subplots(len(kinds), len(columns), squeeze=False, sharex=True, sharey="row")
    for line, kind in zip(grid, kinds, strict=True):
        distances = [distance for distance in some if kind in some[distance]]
        for axes, names in zip(line, columns.values(), strict=True):
            for number, name in enumerate(names):
                cells = [rows[name][distance][kind] for distance in distances]
                # Shifted, so that bars at the same height are visible.
                positions = [position + 0.08 * (number - (len(names) - 1) / 2) for position in range(len(distances))]
                values, bars = [cell["accuracy"] for cell in cells], [error_of(cell) or 0.0 for cell in cells]
                look = {"markersize": 5, "linewidth": 1.2, "capsize": 2, "elinewidth": 0.8}
                axes.errorbar(positions, values, yerr=bars, label=name, **looks[name], **look)
            chance = [some[distance][kind]["chance"] for distance in distances]
            axes.fill_between(range(len(distances)), chance, color="0.88", zorder=0, linewidth=0)
            axes.set_ylim(max(0, min(chance) - 10), 103)  # nothing of interest is below chance
            axes.set_xticks(range(len(distances)), distances)
            axes.tick_params(labelsize=8)
            axes.grid(alpha=0.3)
        line[0].set_ylabel(f"{'mean of the phenomena' if kind == 'mean' else kind}\naccuracy (%)", fontsize=9)
    for axes, below, title in zip(grid[0], grid[-1], columns, strict=True):
        axes.set_title(title, fontsize=10)
        below.set_xlabel("distance of the deciding context (sentences)", fontsize=8)
        legend_below(below)
    figure.suptitle(f"How far back each system uses context\n({terms})", fontsize=12)
    figure.supxlabel(
        "Markers: mean of the seeds. Bars: standard error over items and seeds. Grey: at or below chance.", fontsize=9
    )
    save_figure(figure, path)
