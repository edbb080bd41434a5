"""Batches of instances: by size, or in the order of the documents."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

SIZE, DOCUMENT = "size", "document"
ORDERS = (SIZE, DOCUMENT)


def document_order(positions: np.ndarray) -> np.ndarray:
    """Return (instances,) int64, the order by document and position; ``positions`` (instances, 2)
    int64.
    """
    return np.lexsort((positions[:, 1], positions[:, 0]))


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
    starts, filled = [0], 0
    for position, size in enumerate(np.asarray(tokens).tolist()):
        count = position - starts[-1]
        full = filled + size > most or count == most_instances
        if count and (full or position in ends):
            starts.append(position)
            filled = 0
        filled += size
    return np.split(np.asarray(indices), starts[1:]) if len(indices) else []


def mixed(documents: Sequence[int], seed: int) -> np.ndarray:
    """Return a random order of batches that keeps the batches of each document in order; (batches,)
    int64.

    Args:
        documents: (batches,) the document of each.
    """
    documents = np.asarray(documents, dtype=np.int64)
    # Shuffled documents say which document comes at each place; its batches fill these places in
    # their own order.
    drawn = np.random.RandomState(seed % 2**32).permutation(documents)
    order = np.empty(len(documents), dtype=np.int64)
    order[np.argsort(drawn, kind="stable")] = np.argsort(documents, kind="stable")
    return order
