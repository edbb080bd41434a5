"""Pictures: figures that need no screen, and files that appear when they are complete."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gtransformer.files import atomic_write
from gtransformer.lab.report.pages.colours import system_colours


def new_figure(width: float, height: float, dpi: int = 130) -> Any:
    """An empty figure of so many inches, matplotlib's, which is slow to import and so only where one is drawn."""
    # fairseq lets every library log; matplotlib would list all fonts of the machine, PIL the parts of the picture.
    for name in ("matplotlib", "PIL"):
        logging.getLogger(name).setLevel(logging.WARNING)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def whole_ticks(*directions: Any) -> None:
    """Let axes (``axes.xaxis``, ``axes.yaxis``) that count something have ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    for axis in directions:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a PNG, which appears under ``path`` only when it is complete."""
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format="png")


COLUMNS = 6  # of the legend
MARKERS = "os^vDPX<>ph*d8H"  # one a system, as colours are not for everyone


def draw_reach(
    result: Mapping[str, Any], path: str | Path, terms: str, side: str, error_of: Callable[[Mapping[str, Any]], Any]
) -> None:
    """The mean of the phenomena and each phenomenon by itself, by distance of disclosure, with standard errors.

    Args:
        result: of ``experiments/arena``; ``side``: by which of its distances; ``error_of``: the error of a cell.
        terms: on which it came about, for the title.

    The PNG appears only when it is complete.
    """
    rows = {name: system["accuracy"][f"by_{side}"] for name, system in result["systems"].items()}
    some, colours = next(iter(rows.values())), system_colours(rows)
    kinds = sorted({kind for row in some.values() for kind in row}, key=lambda kind: (kind != "mean", kind))
    figure = new_figure(11, 4 * -(-len(kinds) // 2) + 0.6 + 0.18 * -(-(len(rows) + 1) // COLUMNS))
    aside = min(0.05, 0.5 / len(rows))
    grid = list(figure.subplots(-(-len(kinds) // 2), 2, squeeze=False).flat)
    for axes, kind in zip(grid, kinds, strict=False):
        distances = [distance for distance in some if kind in some[distance]]
        for number, (name, by_distance) in enumerate(rows.items()):
            cells = [by_distance[distance][kind] for distance in distances]
            # Side by side, so that bars at the same height can be told apart.
            places = [place + aside * (number - (len(rows) - 1) / 2) for place in range(len(distances))]
            bars = [error_of(cell) or 0.0 for cell in cells]
            look = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4.5, "linewidth": 1.2, "capsize": 2}
            values = [cell["accuracy"] for cell in cells]
            axes.errorbar(places, values, yerr=bars, label=name, color=colours[name], **look)
        chance = [some[distance][kind]["chance"] for distance in distances]
        axes.plot(range(len(distances)), chance, ":", color="black", label="chance", zorder=5)
        axes.set_xticks(range(len(distances)), distances)
        axes.set_ylim(max(0, min(chance) - 10), 103)  # below chance is nothing to be seen
        axes.set_title("mean of the phenomena" if kind == "mean" else kind, fontsize=10)
        axes.set_xlabel("sentences back to what discloses the answer", fontsize=8)
        axes.set_ylabel("accuracy (%)", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
    for axes in grid[len(kinds) :]:
        axes.set_axis_off()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=COLUMNS, fontsize=8, frameon=False)
    figure.suptitle(f"How far each system sees ({terms}; bars: standard error over items and seeds)", fontsize=11)
    save_figure(figure, path)
