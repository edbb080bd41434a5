"""Pictures of an inspected document: attention by sentence, and the gates."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gtransformer.lab.analysis.attention import Inspection
from gtransformer.lab.analysis.figures import new_figure, save_figure, whole_ticks
from gtransformer.models.common.watching import BATCH_PARTS, CONTEXT_PARTS, PARTS

# What panels and their axes are called: the attention, its keys and its queries.
NAMES = {
    "encoder": ("encoder self-attention", "source sentence", "source sentence"),
    "decoder": ("decoder self-attention", "target sentence", "target sentence"),
    "cross": ("cross-attention", "source sentence", "target sentence"),
    "context": ("context encoder", "context sentence", "context sentence"),
    "encoder_context": ("encoder to context", "context sentence", "source token"),
    "decoder_context": ("decoder to context", "context sentence", "target token"),
    "encoder_batch": ("encoder, across the batch", "source sentence", "source sentence"),
    "decoder_batch": ("decoder, across the batch", "target sentence", "target sentence"),
}
BY_TOKEN = ("encoder_context", "decoder_context")  # a single sentence, whose tokens are told apart
REACHES = ("group", "global")


def draw_attention(found: Inspection, path: str | Path, title: str) -> None:
    """A panel for each kind of attention (rows) and layer (columns): query sentences down, key sentences across.

    Colours are the means of Eq. 12 of DocFlat, averaged over heads, on one scale for all panels, from 0 to the largest
    of all, by their roots: what is a hundredth is told apart from nothing and from the whole. The largest of a panel is
    written above it. Of attention to a context they are shares of each token's attention, from 0 to 1. The PNG appears
    only when it is complete.
    """
    kinds = [(part, reach) for part in NAMES for reach in REACHES if found.find(part, reach)]
    layers = max(one.layer for one in found.maps)
    figure = new_figure(2.4 * layers + 2.4, 2.5 * len(kinds) + 0.6)
    from matplotlib.colors import PowerNorm

    largest = max((one.mean.max() for one in found.maps if one.part not in BY_TOKEN), default=1.0)
    grid = figure.subplots(len(kinds), layers, squeeze=False)
    for row, (part, reach) in zip(grid, kinds, strict=True):
        name, keys, queries = NAMES[part]
        maps = {one.layer: one for one in found.find(part, reach)}
        scale = PowerNorm(0.5, vmin=0, vmax=1.0 if part in BY_TOKEN else max(largest, 1e-12))
        image = None
        for number, axes in enumerate(row, 1):
            if number not in maps:
                axes.set_axis_off()
                continue
            mean = maps[number].mass if part in BY_TOKEN else maps[number].mean
            image = axes.imshow(mean, cmap="viridis", norm=scale, aspect="auto", extent=_extent(mean))
            whole_ticks(axes.xaxis, axes.yaxis)
            axes.set_title(f"{name}, {reach}\nlayer {number}, up to {mean.max():.3f}", fontsize=7)
            axes.tick_params(labelsize=6)
            axes.set_xlabel(keys, fontsize=6)
            axes.set_ylabel(queries, fontsize=6)
        bar = figure.colorbar(image, ax=list(row))
        bar.set_label("share of attention" if part in BY_TOKEN else "attention", fontsize=6)
        bar.ax.tick_params(labelsize=6)
    _save(figure, path, title)


def draw_gates(found: Inspection, path: str | Path, title: str) -> None:
    """Rows are the layers that have a gate, columns the sentences; 1 is group attention alone, 0 global.

    Colours go from the least to the largest that is shown, in twentieths: gates of a model are often much alike.

    Of gates between a sentence and its context, columns are the sentence's tokens; 1 is the sentence alone. Of gates
    behind attention across a batch 1 is what was found there alone.
    """
    kinds = [
        ("share of group attention", PARTS, False),
        ("share of the sentence itself", CONTEXT_PARTS, True),
        ("share of the batch", BATCH_PARTS, False),
    ]
    rows = [
        (label, [gate for part in parts for gate in found.gates if gate.part == part], by_token)
        for label, parts, by_token in kinds
    ]
    rows = [row for row in rows if row[1]]
    figure = new_figure(8, 0.35 * len(found.gates) + 2 * len(rows))
    grid = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    for axes, (label, order, by_token) in zip(grid, rows, strict=True):
        values = [gate.tokens if by_token else gate.sentences for gate in order]
        widest = max(map(len, values))
        shown = np.stack([np.pad(one, (0, widest - len(one)), constant_values=np.nan) for one in values])
        extent = (0.5, widest + 0.5, len(order), 0)
        least = np.floor(np.nanmin(shown) * 20) / 20
        ends = {"vmin": least, "vmax": max(np.ceil(np.nanmax(shown) * 20) / 20, least + 0.05)}
        image = axes.imshow(shown, cmap="cividis", aspect="auto", extent=extent, **ends)
        whole_ticks(axes.xaxis)
        names = [f"{NAMES[gate.part][0]}, layer {gate.layer} ({gate.sentences.mean():.2f})" for gate in order]
        axes.set_yticks([number + 0.5 for number in range(len(order))], names, fontsize=7)
        axes.set_xlabel("token" if by_token else "sentence", fontsize=7)
        axes.tick_params(labelsize=7)
        bar = figure.colorbar(image, ax=axes)
        bar.set_label(f"gate: {label}", fontsize=7)
        bar.ax.tick_params(labelsize=7)
    _save(figure, path, title)


def _extent(mean: np.ndarray) -> tuple[float, float, float, float]:
    """Sentences count from 1, the first at the top left."""
    return 0.5, mean.shape[1] + 0.5, mean.shape[0] + 0.5, 0.5


def _save(figure, path: str | Path, title: str) -> None:
    figure.suptitle(title, fontsize=9)
    save_figure(figure, path)
