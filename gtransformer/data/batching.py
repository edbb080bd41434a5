"""Batches of instances: by size, or in the order of the documents."""

from __future__ import annotations

import math

import numpy as np

SIZE, DOCUMENT = "size", "document"
ORDERS = (SIZE, DOCUMENT)


def fill_batches(
    indices: np.ndarray,
    tokens: np.ndarray,
    max_tokens: int | None,
    max_instances: int | None,
    documents: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Cut consecutive indices into batches, each as full as the limits allow.

    Args:
        tokens: (n,) sizes of these instances.
        documents: (n,) document of each; a batch ends where it changes. None: batches may hold
            several documents.

    An instance longer than ``max_tokens`` is a batch of its own.
    """
    most, most_instances = max_tokens or math.inf, max_instances or math.inf
    ends = set() if documents is None else set((np.flatnonzero(np.diff(documents)) + 1).tolist())
    starts, filled = [0], 0  # the batches' first places, and the tokens of the last batch
    for position, size in enumerate(np.asarray(tokens).tolist()):
        count = position - starts[-1]
        full = filled + size > most or count == most_instances
        if count and (full or position in ends):
            starts.append(position)
            filled = 0
        filled += size
    return np.split(np.asarray(indices), starts[1:]) if len(indices) else []
