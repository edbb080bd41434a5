"""The packed engine: attention per segment (sentence or document), linear in the number of sentences.

Segments of similar length are attended together by PyTorch's fused kernel; nothing of size length x length of the
whole document is ever made for group attention (Bao et al. 2021, section 4.1, "Complexity").
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
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.varlen import VarlenSegments

SHORTEST_CLASS = 8  # segments up to this length share a bucket
# On the CPU, PyTorch's fused kernel is slower than plain products for short keys, and in bfloat16 its backward pass is
# slower for documents, too (docs/performance.md); beyond these lengths memory decides for the fused one.
PLAIN_UP_TO = {torch.float32: 16, torch.bfloat16: 1024}
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
    """Which key each query may see, as a list of buckets of independent segments; arguments as for DensePattern."""

    def __init__(self, queries: Ragged, keys: Ragged, local: bool, causal: bool):
        self.queries, self.keys, self.causal = queries, keys, causal
        segments = _Segments(queries, by_sentence=local)
        self._pairs = _matching_segments(segments, segments if keys is queries else _Segments(keys, by_sentence=local))

    @cached_property
    def bucketed(self) -> _Plan:
        """All segments in buckets of similar length."""
        return self._plan(_buckets(self._pairs, self.causal), np.zeros(0, dtype=np.int64))

    @cached_property
    def _unpadded(self) -> tuple[VarlenSegments, _Plan]:
        """All segments for the kernel that takes unequal lengths."""
        pairs = self._pairs
        segments = VarlenSegments(pairs.queries.order, pairs.keys.order, pairs.rows, self.queries.device)
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
        if len(self._pairs.rows) and varlen.is_usable(q, dropout):
            segments, plan = self._unpadded
            outputs.append(segments.attend(q, k, v, self.causal).reshape(-1, channels))
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


class _Segments:
    """Documents, or sentences (tokens of equal tag), as slices of ``order`` (token indices, stably sorted)."""

    def __init__(self, tokens: Ragged, by_sentence: bool):
        key = tokens.doc.astype(np.int64) << 32
        if by_sentence:
            key = key + tokens.tag
        self.order = np.argsort(key, kind="stable")
        self.keys, self.starts, self.lengths = np.unique(key[self.order], return_index=True, return_counts=True)


@dataclass
class _Pairs:
    queries: _Segments
    keys: _Segments
    rows: np.ndarray  # (pairs, 4): query start, query length, key start, key length


def _matching_segments(queries: _Segments, keys: _Segments) -> _Pairs:
    _, i, j = np.intersect1d(queries.keys, keys.keys, assume_unique=True, return_indices=True)
    rows = np.stack([queries.starts[i], queries.lengths[i], keys.starts[j], keys.lengths[j]], axis=1)
    return _Pairs(queries, keys, rows)


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


def _buckets(pairs: _Pairs, causal: bool) -> list[_HostBucket]:
    classes = _length_class(np.maximum(pairs.rows[:, 1], pairs.rows[:, 3])) if len(pairs.rows) else np.zeros(0)
    buckets = []
    for value in np.unique(classes):
        query_start, query_length, key_start, key_length = pairs.rows[classes == value].T
        query_index, query_real = _slices(pairs.queries.order, query_start, query_length)
        key_index, key_real = _slices(pairs.keys.order, key_start, key_length)
        # With causal self-attention, padding lies behind every real query and needs no mask.
        mask = None if causal or key_real.all() else key_real[:, None, :]
        buckets.append(_HostBucket(query_index, query_real, key_index, mask, causal))
    return buckets


def _slices(order: np.ndarray, start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    column = np.arange(length.max())
    real = column < length[:, None]
    return order[np.where(real, start[:, None] + column, start[:, None])], real
