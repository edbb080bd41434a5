"""The banded engine: intervals that slide from query to query, as of window attention, at a cost linear in length.

Queries are taken in the order of where their intervals begin, in blocks, and each block is attended against its slab:
all keys from the first to the last that any of its queries sees, under a mask. So centres may jump, within and between
documents; where they leave a gap or run ahead, blocks are cut such that no slab grows wide. Blocks of similar shape
are attended together. Nothing of size length x length is ever made.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from torch import Tensor

from gtransformer.modules.packed import BucketPlan, HostBucket
from gtransformer.modules.reach import Reach

SMALLEST_BLOCK, LARGEST_BLOCK = 64, 128  # queries of a block; smaller ones are slower, and gather keys more often
GATHERED, STARTED = 16, 64  # what a key gathered and a segment or block begun cost, in pairs of query and key


class BandedPattern:
    """Who sees whom as a list of buckets of blocks with their slabs."""

    def __init__(self, reach: Reach):
        self.reach = reach

    @cached_property
    def bucketed(self) -> BucketPlan:
        """All blocks in buckets of similar shape."""
        return BucketPlan(self.reach, _buckets(self.reach))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None) -> Tensor:
        """As ``Pattern.attend``."""
        return self.bucketed.attend(q, k, v, dropout, relative)


def slides(reach: Reach) -> bool:
    """Whether blocks against slabs are cheaper than segments of queries that have one interval, where these overlap."""
    found = reach.intervals
    in_segments = ((found.end - found.first) * (found.lengths + GATHERED) + STARTED).sum()
    seen = reach.last[found.queries] - reach.first[found.queries]
    block = _block_size(seen)
    slab = seen.mean() + block
    return bool(in_segments > len(seen) / block * (slab * (block + GATHERED) + STARTED))


def _block_size(widths: np.ndarray) -> int:
    """The power of two next to the mean width of an interval, so that about half of a wide slab is seen."""
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
    """Bounds of blocks of at most ``size`` queries; ``first`` ascends.

    A block ends where the next interval begins further than ``size`` behind all before it, and is halved as long as its
    slab is wider than twice what it would be, did the intervals move on by one a query.
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
    """Cut each stretch into so many parts of almost equal length; ``parts`` is a function of the lengths."""
    lengths = np.diff(starts, append=total)
    count = parts(lengths)
    number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(starts, count) + number * np.repeat(lengths, count) // np.repeat(count, count)


def _on_diagonals(reach: Reach, queries: np.ndarray, first: np.ndarray) -> bool:
    """Whether every query is as many tokens away from a key that it sees as they are positions apart.

    So it is in self-attention. Then the pairs of a distance lie on one diagonal of block and slab.
    """
    own = np.arange(len(queries))
    return (
        len(queries) == reach.queries.total
        and np.array_equal(queries, own)
        and np.array_equal(reach.order, np.arange(len(reach.order)))
        and np.array_equal(reach.keys.position[first] - reach.queries.position, first - own)
    )


def _class(lengths: np.ndarray, shortest: int, growth: float) -> np.ndarray:
    """Lengths of one class are padded to the longest of them, by less than the factor ``growth`` or to ``shortest``."""
    return np.ceil(np.log(np.maximum(lengths, shortest) / shortest) / np.log(growth) - 1e-9).astype(np.int64)
