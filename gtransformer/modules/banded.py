"""The banded engine: intervals that slide from query to query, as in window attention, at a cost linear in length.

Queries are sorted by the begin of their intervals and cut into blocks. Each block attends to its slab under a mask. The
slab holds all keys from the first to the last that any of its queries sees. Centres may jump, within and between
documents: blocks are cut so that no slab becomes wide. Blocks of similar shape are attended together. No tensor of size
length x length is made.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from torch import Tensor

from gtransformer.modules.packed import BucketPlan, HostBucket
from gtransformer.modules.reach import Reach, ReachPattern

SMALLEST_BLOCK, LARGEST_BLOCK = 64, 128  # queries of a block; smaller ones are slower, and gather keys more often
GATHERED, STARTED = 16, 64  # cost of gathering a key and of starting a segment or block, in pairs of query and key


class BandedPattern(ReachPattern):
    """Who sees whom, as a list of buckets of blocks with their slabs."""

    @cached_property
    def bucketed(self) -> BucketPlan:
        """All blocks, in buckets of similar shape."""
        return BucketPlan(self.reach, _buckets(self.reach))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None) -> Tensor:
        """See ``Pattern.attend``."""
        return self.bucketed.attend(q, k, v, dropout, relative)


def slides(reach: Reach) -> bool:
    """Return whether blocks with slabs cost less than segments of queries with equal intervals, where intervals
    overlap.
    """
    found = reach.intervals
    in_segments = ((found.end - found.first) * (found.lengths + GATHERED) + STARTED).sum()
    seen = reach.last[found.queries] - reach.first[found.queries]
    block = _block_size(seen)
    slab = seen.mean() + block
    return bool(in_segments > len(seen) / block * (slab * (block + GATHERED) + STARTED))


def _block_size(widths: np.ndarray) -> int:
    """Return the power of two nearest to the mean width of an interval, so that about half of a wide slab is seen."""
    return int(np.clip(2 ** round(np.log2(widths.mean())), SMALLEST_BLOCK, LARGEST_BLOCK))


def _buckets(reach: Reach) -> list[HostBucket]:
    seeing = np.flatnonzero(reach.last > reach.first)
    if not len(seeing):
        return []
    queries = seeing[np.argsort(reach.first[seeing], kind="stable")]
    first, last = reach.first[queries], reach.last[queries]
    bounds = _cut(first, last, _block_size(last - first))
    starts, lengths = bounds[:-1], np.diff(bounds)
    begins = first[starts]
    widths = np.maximum.reduceat(last, starts) - begins
    on_diagonals = _on_diagonals(reach, queries, first)
    classes = np.stack([_class(lengths, 8, 2.0), _class(widths, 32, 1.25)])
    buckets = []
    for value in np.unique(classes, axis=1).T:
        here = np.flatnonzero((classes == value[:, None]).all(axis=0))
        row = np.arange(lengths[here].max())
        real = row < lengths[here, None]
        slot = starts[here, None] + np.where(real, row, 0)
        begin, columns, diagonal = begins[here], widths[here].max(), None
        if on_diagonals:  # slabs that begin equally far from their block's first query
            nearest, furthest = int((first[slot] - slot).min()), int((last[slot] - slot).max()) - 1
            if len(row) + furthest - nearest <= 2 * columns:
                begin, columns, diagonal = starts[here] + nearest, len(row) + furthest - nearest, (nearest, furthest)
        rank = begin[:, None] + np.arange(columns)
        mask = (first[slot][:, :, None] <= rank[:, None]) & (rank[:, None] < last[slot][:, :, None])
        key_index = reach.order[np.clip(rank, 0, len(reach.order) - 1)]
        buckets.append(HostBucket(queries[slot], real, key_index, mask, diagonal=diagonal))
    return buckets


def _cut(first: np.ndarray, last: np.ndarray, size: int) -> np.ndarray:
    """Return bounds of blocks of at most ``size`` queries; ``first`` ascends.

    A block ends where the next interval begins more than ``size`` keys after all earlier intervals. A block is halved
    while its slab is more than twice as wide as it would be if intervals moved by one key a query.
    """
    seen = np.maximum.accumulate(last)
    starts = np.concatenate([[0], 1 + np.flatnonzero(first[1:] - seen[:-1] > size)])
    starts = _split(starts, len(first), lambda lengths: -(-lengths // size))
    while True:
        lengths = np.diff(starts, append=len(first))
        widest = np.maximum.reduceat(last - first, starts)
        slab = np.maximum.reduceat(last, starts) - first[starts]
        wide = (lengths > 1) & (slab > 2 * (widest + lengths))
        if not wide.any():
            return np.append(starts, len(first))
        starts = _split(starts, len(first), lambda lengths, wide=wide: 1 + wide)


def _split(starts: np.ndarray, total: int, parts) -> np.ndarray:
    """Cut each range into parts of almost equal length; ``parts`` computes their numbers from the lengths."""
    lengths = np.diff(starts, append=total)
    count = parts(lengths)
    number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(starts, count) + number * np.repeat(lengths, count) // np.repeat(count, count)


def _on_diagonals(reach: Reach, queries: np.ndarray, first: np.ndarray) -> bool:
    """Return whether each query's index minus the index of a key that it sees equals the difference of their positions.

    This holds in self-attention. Then all pairs of a distance lie on one diagonal of block and slab.
    """
    own = np.arange(len(queries))
    return (
        len(queries) == reach.queries.total
        and np.array_equal(queries, own)
        and np.array_equal(reach.order, np.arange(len(reach.order)))
        and np.array_equal(reach.keys.position[first] - reach.queries.position, first - own)
    )


def _class(lengths: np.ndarray, shortest: int, growth: float) -> np.ndarray:
    """Return length classes; a class is padded to its longest length, by less than the factor ``growth`` or to
    ``shortest``.
    """
    return np.ceil(np.log(np.maximum(lengths, shortest) / shortest) / np.log(growth) - 1e-9).astype(np.int64)
