"""The page of an inspected document: attention by word and sentence, and gates."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gtransformer.lab.analysis.attention_shown import NAMES
from gtransformer.lab.analysis.documents import InspectedInstance
from gtransformer.lab.analysis.words import KEYS_KEPT, SIDES, Rows, WordMap
from gtransformer.lab.report.pages.page import write_page

LIMIT = 8_000_000  # bytes of attention per page; long documents have fewer keys per word


def write_inspection(path: str | Path, instances: Sequence[InspectedInstance], title: str) -> None:
    """Write the page of a document's instances, inspected ``by_word``."""
    maps = [[*one.words.maps, *one.words.weighed(one.found)] for one in instances]
    most = keys_kept([rows for some in maps for one in some for rows in (one.words, one.sentences)])
    data = {
        "sides": SIDES,
        "names": {part: NAMES[part][0] for part in SIDES},
        "instances": [instance_data(one, some, most) for one, some in zip(instances, maps, strict=True)],
    }
    write_page(
        path,
        "inspect.html",
        data,
        title=f"A look inside: {title}",
        gates=gate_means(instances),
        layers=max((gate.layer for one in instances for gate in one.found.gates), default=0),
        most=most,
    )


def keys_kept(rows: Sequence[Rows], limit: int = LIMIT) -> int:
    """Return how many keys per row, 1 to ``KEYS_KEPT``, fit into ``limit`` bytes of base64 (at least 1)."""
    counts = np.bincount([len(keys) for one in rows for keys, _ in one.found] or [0], minlength=KEYS_KEPT + 1)
    for most in range(KEYS_KEPT, 1, -1):
        kept = int((np.minimum(np.arange(len(counts)), most) * counts).sum())
        if (4 * kept + int(counts.sum())) * 4 / 3 <= limit:
            return most
    return 1


def instance_data(instance: InspectedInstance, maps: Sequence[WordMap], most: int) -> dict[str, Any]:
    """Return an instance's data for the page's script.

    ``first``: number of its first sentence; ``starts``: by side, number of the side's first sentence (None: no
    sentence); ``words``: by side, sentences of words; ``maps``: part, reach, layer, and rows by word and by sentence
    (``Rows.packed``); ``gates``: part, layer, base64 with a byte per word (1 is 255), and the sentences' values as in
    inspection.json.
    """
    sides, gates = instance.words.sides, {(one.part, one.layer): one.sentences for one in instance.found.gates}
    return {
        "first": instance.first,
        "starts": {name: None if one.start is None else instance.first + one.start for name, one in sides.items()},
        "words": {name: side.by_sentence() for name, side in sides.items()},
        "maps": [[o.part, o.reach, o.layer, o.words.packed(most), o.sentences.packed(most)] for o in maps],
        "gates": [
            [
                part,
                layer,
                base64.b64encode(np.rint(255 * values).astype(np.uint8).tobytes()).decode(),
                gates[part, layer].tolist(),
            ]
            for part, layer, values in instance.words.gates
        ],
    }


def gate_means(instances: Sequence[InspectedInstance]) -> list[tuple[str, dict[int, str]]]:
    """Return the name of each part with gates, and the mean over all its sentences by layer."""
    found: dict[str, dict[int, list[np.ndarray]]] = {}
    for one in instances:
        for gate in one.found.gates:
            found.setdefault(gate.part, {}).setdefault(gate.layer, []).append(gate.sentences)
    return [
        (NAMES[part][0], {layer: f"{np.concatenate(values).mean():.2f}" for layer, values in layers.items()})
        for part, layers in found.items()
    ]
