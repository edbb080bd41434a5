"""The packed engine: attention per segment (sentence or document), linear in the number of sentences.

A segment is the queries that have one interval of keys in common. Segments of similar length are attended together by
PyTorch's fused kernel; nothing of size length x length of the whole document is ever made for group attention (Bao et
al. 2021, section 4.1, "Complexity").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gtransformer.modules import varlen
from gtransformer.modules.buckets import PLAIN_UP_TO, BucketPlan, HostBucket, make_plan
from gtransformer.modules.reach import Reach
from gtransformer.modules.varlen import VarlenSegments

SHORTEST_CLASS = 8  # segments up to this length share a bucket
LONG = 128  # beyond it, length classes are finer, because attention on padding grows quadratically
# What the queries of a segment see of its keys: all of them, query i those up to i (as many queries as keys), or each
# as many from the first on as a mask says.
ALL, TRIANGLE, SOME = range(3)


class PackedPattern:
    """Who sees whom as a list of buckets of independent segments: queries of equal (first, end)."""

    def __init__(self, reach: Reach):
        self.reach = reach
        self.queries, self.keys = reach.queries, reach.keys
        self._pairs = _segments(reach)
        self._kinds = set(self._pairs.kinds.tolist())

    @cached_property
    def bucketed(self) -> BucketPlan:
        """All segments in buckets of similar length."""
        return make_plan(self.reach, _buckets(self._pairs))

    @cached_property
    def recurring(self) -> BucketPlan:
        """The same padded a little more, to few shapes: oneDNN compiles a kernel for each and keeps some thousand."""
        return make_plan(self.reach, _buckets(self._pairs, recurring=True))

    @cached_property
    def _unpadded(self) -> tuple[VarlenSegments, BucketPlan]:
        """All segments for the kernel that takes unequal lengths."""
        pairs = self._pairs
        segments = VarlenSegments(pairs.query_order, pairs.key_order, pairs.rows, self.queries.device)
        return segments, make_plan(self.reach, [], segments.query_index)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None) -> Tensor:
        """q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim). A query with no visible key gives 0.

        ``relative`` (2c + 1, dim): vectors of relative positions.
        """
        if relative is None and self._kinds in ({ALL}, {TRIANGLE}) and varlen.is_usable(q, dropout):
            segments, plan = self._unpadded
            output = segments.attend(q, k, v, self._kinds == {TRIANGLE}).flatten(1)
            return plan.attend(q, k, v, dropout, before=(output,))
        # By oneDNN, up to the length from which the fused kernel takes over; with relative positions in float32.
        compiled = relative is None and q.device.type == "cpu" and q.dtype == torch.bfloat16
        return (self.recurring if compiled else self.bucketed).attend(q, k, v, dropout, relative)


@dataclass
class _Pairs:
    """Segments of queries as slices of ``query_order`` (token indices) with their keys as slices of ``key_order``."""

    query_order: np.ndarray
    key_order: np.ndarray
    rows: np.ndarray  # (pairs, 4): query start, query length, key start, key length
    visible: np.ndarray  # (len(query_order),): how many keys of its segment, from the first on, a query sees
    kinds: np.ndarray  # (pairs,): ALL, TRIANGLE or SOME


def _segments(reach: Reach) -> _Pairs:
    """Segments in the order of their keys; queries that see nothing are in none."""
    found = reach.intervals
    order, starts, lengths = found.queries, found.starts, found.lengths
    rows = np.stack([starts, lengths, found.first, found.end - found.first], axis=1)
    visible = reach.last[order] - reach.first[order]
    kinds = np.full(len(rows), ALL)
    if len(rows) and (reach.last < reach.end).any():
        column = np.arange(len(order)) - np.repeat(starts, lengths)
        everything = np.minimum.reduceat(visible, starts) == rows[:, 3]
        triangle = (lengths == rows[:, 3]) & np.logical_and.reduceat(visible == column + 1, starts)
        kinds = np.where(triangle, TRIANGLE, np.where(everything, ALL, SOME))
    return _Pairs(order, reach.order, rows, visible, kinds)


def _length_class(lengths: np.ndarray) -> np.ndarray:
    """Segments of one class are padded to the longest of them: classes grow by 1.5, long ones by 1.1."""
    lengths = np.maximum(lengths, SHORTEST_CLASS)
    short = np.ceil(np.log(lengths / SHORTEST_CLASS) / math.log(1.5) - 1e-9)
    long = 1000 + np.ceil(np.log(lengths / LONG) / math.log(1.1) - 1e-9)
    return np.where(lengths > LONG, long, short).astype(np.int64)


def _recurring_length(lengths: np.ndarray) -> np.ndarray:
    """Lengths rounded up to multiples of 8, from 32 on of 16, from 128 on of 32."""
    step = np.where(lengths > LONG, 32, np.where(lengths > 32, 16, 8))
    return -(-lengths // step) * step


def _recurring_number(segments: int) -> int:
    """Rounded up to three significant binary digits: 8, 10, 12, 14, 16, 20, ..."""
    step = 1 << max(0, segments.bit_length() - 3)
    return -(-segments // step) * step


def _buckets(pairs: _Pairs, recurring: bool = False) -> list[HostBucket]:
    longest = np.maximum(pairs.rows[:, 1], pairs.rows[:, 3])
    classes = _recurring_length(longest) if recurring else _length_class(longest)
    buckets = []
    for kind, value in sorted(set(zip(pairs.kinds.tolist(), classes.tolist(), strict=True))):
        rows = pairs.rows[(pairs.kinds == kind) & (classes == value)]
        real = np.arange(_recurring_number(len(rows)) if recurring else len(rows)) < len(rows)
        rows = rows[np.where(real, np.arange(len(real)), 0)]  # padding is the first segment again
        columns = rows[:, [1, 3]].max(axis=0)
        if recurring:  # squares, unless one side is much shorter or they had to go to another kernel
            square = (4 * columns > 3 * value) & (value <= PLAIN_UP_TO[torch.bfloat16])
            columns = np.where(square, value, _recurring_length(columns))
        query_index, query_real = _slices(pairs.query_order, rows[:, 0], rows[:, 1], columns[0])
        key_index, key_real = _slices(pairs.key_order, rows[:, 2], rows[:, 3], columns[1])
        # In a triangle, padding lies behind every real query and needs no mask.
        mask = None if kind == TRIANGLE or key_real.all() else key_real[:, None, :]
        if kind == SOME:
            visible, _ = _slices(pairs.visible, rows[:, 0], rows[:, 1], columns[0])
            mask = np.arange(columns[1]) < visible[:, :, None]
        buckets.append(HostBucket(query_index, query_real & real[:, None], key_index, mask, kind == TRIANGLE))
    return buckets


def _slices(order: np.ndarray, start: np.ndarray, length: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """(segments, columns): slices of ``order``, padded by their first element; and where they are real."""
    column = np.arange(columns)
    real = column < length[:, None]
    return order[np.where(real, start[:, None] + column, start[:, None])], real
