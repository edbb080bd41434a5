"""An inspected document in words and numbers: what each target sentence drew on, gates by layer, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gtransformer.lab.analysis.attention import Inspection
from gtransformer.models.common.watching import BATCH_PARTS, CONTEXT_PARTS, PARTS

HEADING = """\
Which source sentences each target sentence drew on: the share of its cross-attention that falls on them, group and
global attention weighted as the gate weighs them (layers with a gate; averaged over heads, layers and tokens).
Attention says where the model looked, not why it chose its words.
"""
GATES = (
    ("gate (1: group attention alone, 0: global alone)", PARTS),
    ("gate (1: the sentence alone, 0: what was found in its context alone)", CONTEXT_PARTS),
    ("gate (1: what was found in the batch alone, 0: the word alone)", BATCH_PARTS),
)


def drawn_text(found: Inspection, source: Sequence[str], target: Sequence[str], first: int = 1, top: int = 3) -> str:
    """A paragraph for each target sentence: number, source, translation, and the ``top`` source sentences it drew on.

    ``first``: number of the first sentence in its document.
    """
    paragraphs = []
    for number, (shares, text, translation) in enumerate(zip(found.drawn_from(), source, target, strict=True)):
        best = np.argsort(-shares, kind="stable")[:top]
        listed = ", ".join(f"{first + int(other)} ({100 * shares[other]:.1f} %)" for other in best)
        paragraphs.append(f"{first + number:4d}  {text}\n      {translation}\n      drew on {listed}\n")
    return "\n".join(paragraphs)


def gate_table(found: Inspection) -> str:
    """A line for each layer with a gate: its mean over all sentences and the range of the sentences' means."""
    lines = []
    for heading, parts in GATES:
        order = [gate for part in parts for gate in found.gates if gate.part == part]
        width = max(map(len, parts)) + 1
        if order:
            lines += [heading, f"{'part':{width}} layer   mean  lowest  highest sentence"]
        for gate in order:
            values, place = gate.sentences, f"{gate.part:{width}} {gate.layer:5d}"
            lines.append(f"{place}  {values.mean():5.3f}   {values.min():5.3f}    {values.max():5.3f}")
    return "\n".join(lines) if lines else "no layer has a gate"


def to_json(found: Inspection) -> dict[str, Any]:
    """All numbers, rounded to six digits: ``maps`` (Eq. 12 of DocFlat) and ``gates`` by sentence, and ``drew_on``.

    The last where cross-attention was looked at.

    Of what reads a context, by token besides: ``tokens``, the share of its attention that falls on each sentence of
    the context, and the value of its gate.
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
