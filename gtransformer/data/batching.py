"""Batches of instances: by size, or in the order of the documents."""

from __future__ import annotations

import logging

import numpy as np

logger = logging.getLogger(__name__)

SIZE, DOCUMENT = "size", "document"
ORDERS = (SIZE, DOCUMENT)


def document_order(places: np.ndarray) -> np.ndarray:
    """(instances,) int64, the order of instances by document and place in it; ``places`` (instances, 2) int64."""
    return np.lexsort((places[:, 1], places[:, 0]))


def fill_batches(
    indices: np.ndarray,
    tokens: np.ndarray,
    max_tokens: int | None,
    max_instances: int | None,
    documents: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Consecutive indices in batches, each as full as the limits allow.

    Args:
        tokens: (n,) sizes of these instances.
        documents: (n,) document of each; where it changes, a batch ends. None: batches may hold several.

    An instance longer than ``max_tokens`` is a batch of its own.
    """
    starts, filled = [0], 0
    for position, size in enumerate(np.asarray(tokens).tolist()):
        count = position - starts[-1]
        if count and (
            (max_tokens is not None and filled + size > max_tokens)
            or (max_instances is not None and max_instances > 0 and count >= max_instances)
            or (documents is not None and documents[position] != documents[position - 1])
        ):
            starts.append(position)
            filled = 0
        filled += size
    return np.split(np.asarray(indices), starts[1:]) if len(indices) else []


def make_divisible(batches: list[np.ndarray], shards: int) -> list[np.ndarray]:
    """The same instances in a number of batches that ``shards`` divides: the fullest batches are halved.

    Otherwise fairseq gives some processes an empty batch at the end of an epoch. Where updates accumulate several
    batches, it then forgets how many tokens these processes have counted before, and the update is too large. Batches
    of one instance stay as they are; where there are only such, the number may not be a multiple: a warning says so.
    """
    batches = list(batches)
    while len(batches) % shards:
        fullest = max(range(len(batches)), key=lambda number: len(batches[number]))
        if len(batches[fullest]) < 2:
            logger.warning(
                "%d batches of one instance each for %d processes: some get an empty one at the end of an epoch; with "
                "accumulated gradients that update is too large",
                len(batches), shards,
            )  # fmt: skip
            break
        batches[fullest : fullest + 1] = np.array_split(batches[fullest], 2)
    return batches
