"""Pictures: figures that need no screen, and files that appear when they are complete."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtransformer.files import atomic_write


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


class Curves:
    """The curves of some axes; one that lies upon an earlier one, all along, is dashed and says so.

    ``add``: what a curve that goes through ``points`` is to be called, and further arguments of matplotlib's ``plot``.
    """

    def __init__(self) -> None:
        self._known: list[tuple[str, list[tuple[float, float]]]] = []

    def add(self, label: str, points: Sequence[tuple[float, float]]) -> tuple[str, dict[str, Any]]:
        """Upon each other lie curves of the same places, at least 3, whose heights differ by less than a thousandth.

        On axes that begin at 0, and on logarithmic ones, that is less than a line's width. It says nothing of the
        numbers, which may differ where they are printed; fewer points are marks with values of their own.
        """
        points = list(points)
        for other, theirs in self._known:
            same = len(points) == len(theirs) and all(
                one[0] == two[0] and math.isclose(one[1], two[1], rel_tol=1e-3)
                for one, two in zip(points, theirs, strict=True)
            )
            if len(points) >= 3 and same:
                return f"{label} (on {other}'s line)", {"linestyle": (0, (4, 4)), "zorder": 3}
        self._known.append((label, points))
        return label, {}


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a PNG, which appears under ``path`` only when it is complete."""
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format="png")
