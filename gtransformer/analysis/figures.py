"""Pictures: figures that need no screen, and files that appear when they are complete."""

from __future__ import annotations

import logging
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


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a PNG, which appears under ``path`` only when it is complete."""
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format="png")
