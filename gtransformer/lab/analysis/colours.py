"""One colour, marker and line style per system in all figures and pages.

Each colour has a contrast of at least 3 with white and with the pages' dark background, as WCAG 2.2 requires for
graphics. Variants of a system have one hue. Names that are not listed get ``OTHERS`` in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

SYSTEMS = {
    "sentences": "#77797c",
    "concatenation": "#8f5d04",
    "documents": "#c43f40",  # the Transformer over documents
    "gtransformer": "#3461c9",
    "lst": "#069ce4",
    "window": "#137875",
    "window_absolute": "#1ba09c",
    "document_transformer": "#e26b1b",
    "flat_transformer": "#c68206",
    "pseudo_documents": "#be3d70",
    "docflat": "#6851c3",
    "docflat_d": "#8f7df3",
    "docflat_i": "#b56fdc",
    "mbe": "#097f1b",
    "abd": "#3ca541",
}
# Systems in one panel, at most ``SYSTEMS_PER_PANEL``, grouped by their context.
FAMILIES = {
    "No context, or two sentences": ("sentences", "concatenation", "document_transformer", "flat_transformer"),
    "Whole documents": ("documents", "gtransformer", "lst", "window", "window_absolute"),
    "Three sentences, and the batch": ("pseudo_documents", "docflat", "docflat_d", "docflat_i", "mbe", "abd"),
}
SYSTEMS_PER_PANEL = 6
MARKERS = "os^vDPX<>p*dHx." + "+1234|_h8"  # one per system, for readers who cannot distinguish the colours; then others
LINES = ("-", "--", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (9, 2)))  # one per system of a family
# Other names of systems in figures and studies (configs/studies); "transformer" is the one over documents in
# demonstration and studies.
NAMES = {
    "g_transformer": "gtransformer",
    "transformer": "documents",
    "transformer_over_the_document": "documents",
    "doc_transformer": "document_transformer",
    "document": "document_transformer",
    "none": "sentences",  # no context
    "two": "concatenation",
    "flat": "flat_transformer",
    "doc2doc": "pseudo_documents",
    "c": "docflat",
    "docflat_c": "docflat",
    "d": "docflat_d",
    "i": "docflat_i",
    "cpu_small": "gtransformer",
    "cpu_small_doc": "documents",
    "cpu_small_sent": "sentences",
    "proof_concatenation": "concatenation",
    "proof_document_transformer": "document_transformer",
    "proof_gtransformer_warm": "gtransformer",
}
OTHERS = ("#e8605d", "#617209", "#d064b9", "#0b758a", "#ab9104", "#a74a04", "#5b8df9", "#ae459a", "#879f07", "#017c5d")


def system_colours(names: Iterable[str]) -> dict[str, str]:
    """Return ``#rrggbb`` for each name in a figure; all are different as long as there are enough.

    A system has the same colour in every figure, unless an earlier name is of the same system. Names that are not
    listed get colours in order, so pass the same names for all figures of a result.
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")  # G-Transformer is g_transformer
        own = SYSTEMS.get(NAMES.get(plain, plain))
        free = (one for one in (own, *OTHERS, *SYSTEMS.values()) if one and one not in found.values())
        found[name] = next(free, OTHERS[0])
    return found


def system_looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return matplotlib's ``color``, ``marker`` and ``linestyle`` for each name; colours as ``system_colours``.

    A system has the same marker and line style in every figure, as they depend on its colour.
    """
    colours = system_colours(names)
    style = {name: number for family in FAMILIES.values() for number, name in enumerate(family)}
    looks = {colour: (number, style[name]) for number, (name, colour) in enumerate(SYSTEMS.items())}
    looks |= {colour: (len(SYSTEMS) + number, 3 + number) for number, colour in enumerate(OTHERS)}
    found = {}
    for name, colour in colours.items():
        marker, line = looks[colour]
        found[name] = {"color": colour, "marker": MARKERS[marker % len(MARKERS)], "linestyle": LINES[line % len(LINES)]}
    return found


def families(names: Sequence[str]) -> dict[str, list[str]]:
    """Return names of systems grouped by their context, at most ``SYSTEMS_PER_PANEL`` per group."""
    found = {title: [name for name in family if name in names] for title, family in FAMILIES.items()}
    others = [name for name in names if name not in SYSTEMS]
    for start in range(0, len(others), SYSTEMS_PER_PANEL):
        found[f"Other systems{f' ({start // SYSTEMS_PER_PANEL + 1})' if len(others) > SYSTEMS_PER_PANEL else ''}"] = (
            others[start : start + SYSTEMS_PER_PANEL]
        )
    return {title: some for title, some in found.items() if some}


def shades(colour: str, count: int) -> list[str]:
    """Return a ``#rrggbb`` and darker shades of it, for several lines of one system on white."""
    channels = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return ["#" + "".join(f"{round(one * (1 - number / count)):02x}" for one in channels) for number in range(count)]
