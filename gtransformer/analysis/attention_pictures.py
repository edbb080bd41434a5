"""Pictures of an inspected document: attention by sentence, and the gates."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gtransformer.analysis.attention import Inspection
from gtransformer.analysis.figures import new_figure, save_figure
from gtransformer.analysis.watching import PARTS

NAMES = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
REACHES = ("group", "global")


def draw_attention(found: Inspection, path: str | Path, title: str) -> None:
    """A panel for each kind of attention (rows) and layer (columns): query sentences down, key sentences across.

    Colours are the means of Eq. 12 of DocFlat, averaged over heads, from 0 to the largest of the panel, which is
    written above it. The PNG appears only when it is complete.
    """
    kinds = [(part, reach) for part in PARTS for reach in REACHES if found.find(part, reach)]
    layers = max(one.layer for one in found.maps)
    figure = new_figure(2.4 * layers + 1.6, 2.5 * len(kinds) + 0.6)
    grid = figure.subplots(len(kinds), layers, squeeze=False)
    for row, (part, reach) in zip(grid, kinds, strict=True):
        maps = {one.layer: one for one in found.find(part, reach)}
        for number, axes in enumerate(row, 1):
            if number not in maps:
                axes.set_axis_off()
                continue
            mean = maps[number].mean
            axes.imshow(mean, cmap="viridis", vmin=0, vmax=max(mean.max(), 1e-12), aspect="auto", extent=_extent(mean))
            axes.set_title(f"{NAMES[part]}, {reach}\nlayer {number}, up to {mean.max():.3f}", fontsize=7)
            axes.tick_params(labelsize=6)
            axes.set_xlabel("source sentence" if part != "decoder" else "target sentence", fontsize=6)
            axes.set_ylabel("source sentence" if part == "encoder" else "target sentence", fontsize=6)
    _save(figure, path, title)


def draw_gates(found: Inspection, path: str | Path, title: str) -> None:
    """Rows are the layers that have a gate, columns the sentences; 1 (bright) is group attention alone, 0 global."""
    figure = new_figure(8, 0.35 * len(found.gates) + 2)
    axes = figure.subplots()
    order = [gate for part in PARTS for gate in found.gates if gate.part == part]
    widest = max(len(gate.sentences) for gate in order)
    rows = np.full((len(order), widest), np.nan)
    for row, gate in zip(rows, order, strict=True):
        row[: len(gate.sentences)] = gate.sentences
    image = axes.imshow(rows, cmap="cividis", vmin=0, vmax=1, aspect="auto", extent=(0.5, widest + 0.5, len(order), 0))
    labels = [f"{NAMES[gate.part]}, layer {gate.layer} ({gate.sentences.mean():.2f})" for gate in order]
    axes.set_yticks([number + 0.5 for number in range(len(order))], labels, fontsize=7)
    axes.set_xlabel("sentence", fontsize=7)
    axes.tick_params(labelsize=7)
    bar = figure.colorbar(image, ax=axes)
    bar.set_label("gate: share of group attention", fontsize=7)
    bar.ax.tick_params(labelsize=7)
    _save(figure, path, title)


def _extent(mean: np.ndarray) -> tuple[float, float, float, float]:
    """Sentences count from 1, the first at the top left."""
    return 0.5, mean.shape[1] + 0.5, mean.shape[0] + 0.5, 0.5


def _save(figure, path: str | Path, title: str) -> None:
    figure.suptitle(title, fontsize=9)
    save_figure(figure, path)
