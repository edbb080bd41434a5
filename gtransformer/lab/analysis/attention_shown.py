"""Show an inspected document: as text, as numbers, and as figures of attention by sentence and of gates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gtransformer.lab.analysis.attention import Inspection
from gtransformer.lab.analysis.figures import new_figure, save_figure, whole_ticks
from gtransformer.lab.analysis.watching import BATCH_PARTS, CONTEXT_PARTS, PARTS

HEADING = """\
Source sentences that each target sentence attended to: their share of its cross-attention. Group and
global attention have the gate's weights (layers with a gate; averaged over heads, layers and tokens).
Attention does not explain why the model chose its words.
"""
GATES = (
    ("gate (1: group attention only, 0: global only)", PARTS),
    ("gate (1: the sentence only, 0: its context only)", CONTEXT_PARTS),
    ("gate (1: attention across the batch only, 0: the word only)", BATCH_PARTS),
)


def drawn_text(found: Inspection, source: Sequence[str], target: Sequence[str], first: int = 1, top: int = 3) -> str:
    """Return a paragraph for each target sentence: number, source, translation, and its ``top`` source sentences by
    attention.

    ``first``: number of the first sentence in its document.
    """
    paragraphs = []
    for number, (shares, text, translation) in enumerate(zip(found.drawn_from(), source, target, strict=True)):
        best = np.argsort(-shares, kind="stable")[:top]
        listed = ", ".join(f"{first + int(other)} ({100 * shares[other]:.1f} %)" for other in best)
        paragraphs.append(f"{first + number:4d}  {text}\n      {translation}\n      drew on {listed}\n")
    return "\n".join(paragraphs)


def gate_table(found: Inspection) -> str:
    """Return a line for each layer with a gate: its mean over all sentences and the range of the sentences' means."""
    lines = []
    for heading, parts in GATES:
        order = [gate for part in parts for gate in found.gates if gate.part == part]
        width = max(map(len, parts)) + 1
        if order:
            lines += [heading, f"{'part':{width}} layer   mean  lowest  highest sentence"]
        for gate in order:
            values, label = gate.sentences, f"{gate.part:{width}} {gate.layer:5d}"
            lines.append(f"{label}  {values.mean():5.3f}   {values.min():5.3f}    {values.max():5.3f}")
    return "\n".join(lines) if lines else "no layer has a gate"


def to_json(found: Inspection) -> dict[str, Any]:
    """Return all numbers, rounded to six digits: ``maps`` (Eq. 12 of DocFlat) and ``gates`` by sentence, and
    ``drew_on`` (only with cross-attention).

    Attention to a context also has ``tokens``: by token, its attention share of each context sentence, and its gate.
    """
    maps = [
        {"part": one.part, "reach": one.reach, "layer": one.layer, "mean": _rounded(one.mean)}
        | ({"tokens": _rounded(one.mass)} if one.part in CONTEXT_PARTS else {})
        for one in found.maps
    ]
    gates = [
        {"part": gate.part, "layer": gate.layer, "sentences": _rounded(gate.sentences)}
        | ({"tokens": _rounded(gate.tokens)} if gate.part in CONTEXT_PARTS else {})
        for gate in found.gates
    ]
    drew_on = {"drew_on": _rounded(found.drawn_from())} if "cross" in found.tags else {}
    return {"maps": maps, "gates": gates, **drew_on}


def _rounded(values: np.ndarray) -> list:
    return np.round(values, 6).tolist()


# Labels of panels and axes: the attention, its keys and its queries.
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
BY_TOKEN = ("encoder_context", "decoder_context")  # a single sentence, shown by token
REACHES = ("group", "global")


def draw_attention(found: Inspection, path: str | Path, title: str) -> None:
    """Draw a panel for each kind of attention (rows) and layer (columns): query sentences down, key sentences across.

    Colours are the means of Eq. 12 of DocFlat, averaged over heads. All panels have one square-root scale, from 0 to
    the overall maximum, so that a hundredth is visible. Each panel's title has its maximum. For attention to a context,
    colours are shares of each token's attention, from 0 to 1. The PNG appears only when it is complete.
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
    """Draw gates: rows are layers with a gate, columns sentences; 1 is group attention only, 0 global only.

    Colours range from the smallest to the largest value shown, in twentieths, as a model's gates are often similar.

    For gates between a sentence and its context, columns are the sentence's tokens, and 1 is the sentence only. For
    gates behind attention across a batch, 1 is that attention only.
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
    """Return the extent of an image whose sentences count from 1, the first at the top left."""
    return 0.5, mean.shape[1] + 0.5, mean.shape[0] + 0.5, 0.5


def _save(figure, path: str | Path, title: str) -> None:
    figure.suptitle(title, fontsize=9)
    save_figure(figure, path)
