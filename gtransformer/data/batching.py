"""Batches of instances: by size, or in the order of the documents."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import pairwise, zip_longest

import numpy as np

logger = logging.getLogger(__name__)

SIZE, DOCUMENT = "size", "document"
ORDERS = (SIZE, DOCUMENT)
# What training draws from the whole corpus: nothing; the instances of a batch; the sentences of an instance; the
# instances of batches in an added second half of each epoch.
NOTHING, GLOBAL, EVERYTHING, ADDED = SHUFFLES = ("nothing", "global", "everything", "added")


def document_order(positions: np.ndarray) -> np.ndarray:
    """Return (instances,) int64, the order by document and position; ``positions`` (instances, 2) int64."""
    return np.lexsort((positions[:, 1], positions[:, 0]))


def fill_batches(
    indices: np.ndarray,
    tokens: np.ndarray,
    max_tokens: int | None,
    max_instances: int | None,
    documents: np.ndarray | None = None,
    joined: bool = False,
) -> list[np.ndarray]:
    """Cut consecutive indices into batches, each as full as the limits allow.

    Args:
        tokens: (n,) sizes of these instances.
        documents: (n,) document of each; a batch ends where it changes. None: batches may hold several documents.
        joined: fill a batch after the end of a document with whole documents that fit.

    An instance longer than ``max_tokens`` is a batch of its own.
    """
    most = math.inf if max_tokens is None else max_tokens
    most_instances = max_instances if max_instances is not None and max_instances > 0 else math.inf
    begins = {} if documents is None else _documents(np.asarray(tokens), np.asarray(documents))
    starts, filled = [0], 0
    for position, size in enumerate(np.asarray(tokens).tolist()):
        count = position - starts[-1]
        wanted, instances = begins.get(position, (size, 1)) if joined else (size, 1)
        full = filled + wanted > most or count + instances > most_instances
        if count and (full or (position in begins and not joined)):
            starts.append(position)
            filled = 0
        filled += size
    return np.split(np.asarray(indices), starts[1:]) if len(indices) else []


def _documents(tokens: np.ndarray, documents: np.ndarray) -> dict[int, tuple[int, int]]:
    """Map each document's first index to its tokens and instances, given (n,) tokens and documents of instances."""
    starts = np.flatnonzero(np.diff(documents, prepend=documents[:1] - 1))
    sizes = np.add.reduceat(tokens, starts) if len(starts) else starts
    counts = np.diff(starts, append=len(documents))
    return dict(zip(starts.tolist(), zip(sizes.tolist(), counts.tolist(), strict=True), strict=True))


def make_divisible(batches: list[np.ndarray], shards: int) -> list[np.ndarray]:
    """Return the same instances in a number of batches that ``shards`` divides: the fullest batches are halved.

    Otherwise fairseq gives some processes an empty batch at the end of an epoch. If updates accumulate several batches,
    fairseq then forgets the tokens that these processes have counted before, and the update is too large. Batches of
    one instance are not halved; if all are such, the number may not be a multiple, and a warning is logged.
    """
    made = halved(batches, -(-len(batches) // shards) * shards)
    if len(made) % shards:
        warn_of_empty(len(made), shards)
    return made


def halved(batches: Sequence[np.ndarray], wanted: int, documents: np.ndarray | None = None) -> list[np.ndarray]:
    """Return ``wanted`` batches of the same instances in the same order, the fullest ones halved; fewer if all are
    single.

    ``documents`` (instances,): a batch of several documents is cut at the document border nearest to its middle.
    """
    batches = list(batches)
    while len(batches) < wanted:
        fullest = max(range(len(batches)), key=lambda number: len(batches[number]), default=None)
        if fullest is None or len(batches[fullest]) < 2:
            break
        batch = batches[fullest]
        borders = [] if documents is None else np.flatnonzero(np.diff(documents[batch])) + 1
        middle = min(borders, key=lambda border: abs(2 * border - len(batch)), default=-(-len(batch) // 2))
        batches[fullest : fullest + 1] = np.split(batch, [middle])
    return batches


def warn_of_empty(batches: int, shards: int) -> None:
    """Log a warning that some processes run out of batches before the end of an epoch."""
    logger.warning(
        "%d batches of one instance each for %d processes: some get an empty one at the end of an epoch; with "
        "accumulated gradients that update is too large",
        batches, shards,
    )  # fmt: skip


def share_documents(batches: Sequence[np.ndarray], documents: np.ndarray, shards: int) -> list[np.ndarray]:
    """Order batches of documents so that process i can take every ``shards``-th batch, from the i-th on.

    Each process reads its own documents, in order. A document with more batches than a fair share is cut; its parts may
    go to several processes. All processes have equally many batches: those with fewer have their fullest ones halved.
    If these are single instances, empty batches follow at the end, and a warning is logged.

    Args:
        batches: in document order, each of one document; what is joined to the end of a document goes with it.
        documents: (instances,) the document of each instance.
    """
    if shards == 1 or not batches:
        return list(batches)
    batches = halved(batches, shards, documents)
    share = -(-len(batches) // shards)
    changes = np.diff([documents[batch[0]] for batch in batches])
    borders = [0, *(np.flatnonzero(changes) + 1).tolist(), len(batches)]
    parts = [range(one, min(one + share, end)) for first, end in pairwise(borders) for one in range(first, end, share)]
    chosen: list[list[int]] = [[] for _ in range(shards)]
    for part in sorted(parts, key=len, reverse=True):
        min(chosen, key=len).extend(part)
    most = max(map(len, chosen))
    own = [halved([batches[number] for number in sorted(numbers)], most, documents) for numbers in chosen]
    if any(len(one) < most for one in own):
        warn_of_empty(sum(map(len, own)), shards)
    empty = np.zeros(0, dtype=np.int64)
    return [batch for together in zip_longest(*own, fillvalue=empty) for batch in together]


def mixed(documents: Sequence[int], seed: int) -> np.ndarray:
    """Return a random order of batches that keeps the batches of each document in order; (batches,) int64."""
    documents = np.asarray(documents, dtype=np.int64)
    drawn = np.random.RandomState(seed % 2**32).permutation(documents)
    order = np.empty(len(documents), dtype=np.int64)
    order[np.argsort(drawn, kind="stable")] = np.argsort(documents, kind="stable")
    return order
