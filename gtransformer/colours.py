"""One colour a system in all pictures and pages.

Each can be told from white and from the pages' dark background (contrast of at least 3 with either, as WCAG 2.2 asks of
graphics). Variants of a system are of one hue. A system that is not listed has one of ``OTHERS``, by its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

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
# What pictures and users call some of them, too; "transformer" is the one over documents in demonstration and studies.
NAMES = {
    "g_transformer": "gtransformer",
    "transformer": "documents",
    "transformer_over_the_document": "documents",
    "doc_transformer": "document_transformer",
}
OTHERS = ("#e8605d", "#617209", "#d064b9", "#0b758a", "#ab9104", "#a74a04", "#5b8df9", "#ae459a", "#879f07", "#017c5d")


def system_colours(names: Iterable[str]) -> dict[str, str]:
    """``#rrggbb`` for each name of a picture, all different (as long as there are enough).

    A system has the same colour in every picture. Two that are not listed may want the same; then the later one has
    the next that is free.
    """
    found: dict[str, str] = {}
    names = list(dict.fromkeys(names))
    for name in names:
        own = SYSTEMS.get(_known_as(name))
        if own is not None and own not in found.values():
            found[name] = own
    for name in names:
        if name not in found:
            first = int(hashlib.sha256(_known_as(name).encode()).hexdigest(), 16) % len(OTHERS)
            wanted = [*OTHERS[first:], *OTHERS[:first], *SYSTEMS.values()]
            found[name] = next((one for one in wanted if one not in found.values()), wanted[0])
    return {name: found[name] for name in names}


def _known_as(name: str) -> str:
    """The key of ``SYSTEMS`` that a name stands for: ``G-Transformer`` is ``gtransformer``."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return NAMES.get(plain, plain)
