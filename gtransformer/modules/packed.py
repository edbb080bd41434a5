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
from torch.nn import functional

from gtransformer.modules import varlen
from gtransformer.modules.reach import Reach
from gtransformer.modules.varlen import VarlenSegments

SHORTEST_CLASS = 8  # segments up to this length share a bucket
# On the CPU, PyTorch's fused kernel is slower than plain products for short keys, and in bfloat16 its backward pass is
# slower for documents, too (docs/performance.md); beyond these lengths memory decides for the fused one.
PLAIN_UP_TO = {torch.float32: 16, torch.bfloat16: 1024}
# What the queries of a segment see of its keys: all of them, query i those up to i (as many queries as keys), or each
# as many from the first on as a mask says.
ALL, TRIANGLE, SOME = range(3)
LONG = 128  # beyond it, length classes are finer, because attention on padding grows quadratically


@dataclass
class Bucket:
    """Segments attended in one kernel call.

    query_index (segments, Lq) and key_index (segments, Lk) int64 point into the packed tokens; mask is None or bool,
    broadcastable to (segments, 1, Lq, Lk), True where a key is visible; causal lets query i see keys up to i.
    """

    query_index: Tensor
    key_index: Tensor
    mask: Tensor | None
    causal: bool


@dataclass
class _Plan:
    buckets: list[Bucket]
    position: Tensor  # (queries,): where each query's result lies among the outputs


class PackedPattern:
    """Who sees whom as a list of buckets of independent segments: queries of equal (first, end)."""

    def __init__(self, reach: Reach):
        self.reach = reach
        self.queries, self.keys = reach.queries, reach.keys
        self._pairs = _segments(reach)

    @cached_property
    def bucketed(self) -> _Plan:
        """All segments in buckets of similar length."""
        return self._plan(_buckets(self._pairs), np.zeros(0, dtype=np.int64))

    @cached_property
    def _unpadded(self) -> tuple[VarlenSegments, _Plan]:
        """All segments for the kernel that takes unequal lengths."""
        pairs = self._pairs
        segments = VarlenSegments(pairs.query_order, pairs.key_order, pairs.rows, self.queries.device)
        return segments, self._plan([], segments.query_index)

    def _plan(self, buckets: list[_HostBucket], before: np.ndarray) -> _Plan:
        """Buckets on the device, and where each query finds its result: queries ``before`` come first."""
        device = self.queries.device
        position = np.full(self.queries.total, -1)
        position[before] = np.arange(len(before))
        filled, made = len(before), []
        for bucket in buckets:
            index, real = bucket.query_index, bucket.query_real
            position[index[real]] = filled + np.flatnonzero(real.ravel())
            filled += index.size
            mask = None if bucket.mask is None else torch.from_numpy(bucket.mask).unsqueeze(1).to(device)
            on_device = (
                torch.from_numpy(side.ravel()).to(device).view(side.shape) for side in (index, bucket.key_index)
            )
            made.append(Bucket(*on_device, mask, bucket.causal))
        position[position < 0] = filled  # a query with no key reads the row of zeros behind the buckets
        return _Plan(made, torch.from_numpy(position).to(device))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim). A query with no visible key gives 0."""
        channels = q.shape[1] * q.shape[2]
        outputs = []
        kinds = set(self._pairs.kinds.tolist())
        if kinds in ({ALL}, {TRIANGLE}) and varlen.is_usable(q, dropout):
            segments, plan = self._unpadded
            outputs.append(segments.attend(q, k, v, kinds == {TRIANGLE}).reshape(-1, channels))
        else:
            plan = self.bucketed
        for bucket in plan.buckets:
            output = segment_attention(
                _gather(q, bucket.query_index),
                _gather(k, bucket.key_index),
                _gather(v, bucket.key_index),
                bucket.mask,
                bucket.causal,
                dropout,
            )
            outputs.append(output.transpose(1, 2).reshape(-1, channels))
        outputs.append(q.new_zeros(1, channels))
        return torch.cat(outputs).index_select(0, plan.position)


def segment_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """Attention of independent segments by the kernel that is fastest for their length.

    Args:
        q, k, v: (segments, heads, length, dim); mask: bool, True at visible keys, at least one a query.

    Returns:
        (segments, heads, query length, dim).
    """
    longest = PLAIN_UP_TO.get(q.dtype, 0) if q.device.type == "cpu" else 0
    if k.shape[2] > longest:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    scores = torch.matmul(q * (1.0 / math.sqrt(q.shape[-1])), k.transpose(2, 3))
    if causal:
        future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    elif mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.matmul(functional.dropout(torch.softmax(scores, dim=-1), dropout), v)


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """(N, heads, dim) -> (segments, heads, length, dim)."""
    return x.index_select(0, index.flatten()).view(*index.shape, *x.shape[1:]).transpose(1, 2)


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
    seeing = np.flatnonzero(reach.last > reach.first)
    interval = (reach.first[seeing] << 32) + reach.end[seeing]
    by_interval = np.argsort(interval, kind="stable")
    order = seeing[by_interval]
    _, starts, lengths = np.unique(interval[by_interval], return_index=True, return_counts=True)
    first, end = reach.first[order[starts]], reach.end[order[starts]]
    rows = np.stack([starts, lengths, first, end - first], axis=1)
    visible = reach.last[order] - reach.first[order]
    kinds = np.full(len(rows), ALL)
    if len(rows) and (reach.last < reach.end).any():
        column = np.arange(len(order)) - np.repeat(starts, lengths)
        everything = np.minimum.reduceat(visible, starts) == rows[:, 3]
        triangle = (lengths == rows[:, 3]) & np.logical_and.reduceat(visible == column + 1, starts)
        kinds = np.where(triangle, TRIANGLE, np.where(everything, ALL, SOME))
    return _Pairs(order, reach.order, rows, visible, kinds)


@dataclass
class _HostBucket:
    query_index: np.ndarray
    query_real: np.ndarray
    key_index: np.ndarray
    mask: np.ndarray | None
    causal: bool


def _length_class(lengths: np.ndarray) -> np.ndarray:
    """Segments of one class are padded to the longest of them: classes grow by 1.5, long ones by 1.1."""
    lengths = np.maximum(lengths, SHORTEST_CLASS)
    short = np.ceil(np.log(lengths / SHORTEST_CLASS) / math.log(1.5) - 1e-9)
    long = 1000 + np.ceil(np.log(lengths / LONG) / math.log(1.1) - 1e-9)
    return np.where(lengths > LONG, long, short).astype(np.int64)


def _buckets(pairs: _Pairs) -> list[_HostBucket]:
    classes = _length_class(np.maximum(pairs.rows[:, 1], pairs.rows[:, 3])) if len(pairs.rows) else np.zeros(0)
    buckets = []
    for kind, value in sorted(set(zip(pairs.kinds.tolist(), classes.tolist(), strict=True))):
        query_start, query_length, key_start, key_length = pairs.rows[(pairs.kinds == kind) & (classes == value)].T
        query_index, query_real = _slices(pairs.query_order, query_start, query_length)
        key_index, key_real = _slices(pairs.key_order, key_start, key_length)
        # In a triangle, padding lies behind every real query and needs no mask.
        mask = None if kind == TRIANGLE or key_real.all() else key_real[:, None, :]
        if kind == SOME:
            visible, _ = _slices(pairs.visible, query_start, query_length)
            mask = np.arange(key_index.shape[1]) < visible[:, :, None]
        buckets.append(_HostBucket(query_index, query_real, key_index, mask, kind == TRIANGLE))
    return buckets


def _slices(order: np.ndarray, start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    column = np.arange(length.max())
    real = column < length[:, None]
    return order[np.where(real, start[:, None] + column, start[:, None])], real
