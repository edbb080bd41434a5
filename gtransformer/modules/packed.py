"""The packed engine: attention per segment (sentence or document), linear in the number of sentences.

Segments of similar length are attended together by PyTorch's fused kernel; nothing of size length x length of the
whole document is ever made for group attention (Bao et al. 2021, section 4.1, "Complexity").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.modules.ragged import Ragged

SHORTEST_CLASS = 8  # segments up to this length share a bucket
# On the CPU, PyTorch's fused kernel is slower than plain products for short keys, and in bfloat16 its backward pass is
# slower for documents, too (scripts/benchmark_attention.py); beyond these lengths memory decides for the fused one.
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


class PackedPattern:
    """Which key each query may see, as a list of buckets of independent segments; arguments as for DensePattern."""

    def __init__(self, queries: Ragged, keys: Ragged, local: bool, causal: bool):
        self.queries = queries
        device = queries.device
        if local:
            free = queries.tag == 0
            pairs = _matching_segments(_Segments(queries, ~free), _Segments(keys, keys.tag > 0))
        else:
            free = np.zeros(queries.total, dtype=bool)
            everything = _Segments(queries, ~free, by_document=True)
            pairs = _matching_segments(
                everything, everything if keys is queries else _Segments(keys, None, by_document=True)
            )
        position = np.full(queries.total, -1)
        self.buckets: list[Bucket] = []
        filled = 0
        for bucket in [*_buckets(pairs, causal), *_untagged_buckets(queries, keys, free, causal)]:
            index, real = bucket.query_index, bucket.query_real
            position[index[real]] = filled + np.flatnonzero(real.ravel())
            filled += index.size
            mask = None if bucket.mask is None else torch.from_numpy(bucket.mask).unsqueeze(1).to(device)
            self.buckets.append(
                Bucket(
                    torch.from_numpy(index.ravel()).to(device).view(index.shape),
                    torch.from_numpy(bucket.key_index.ravel()).to(device).view(bucket.key_index.shape),
                    mask,
                    bucket.causal,
                )
            )
        position[position < 0] = filled  # a query with no key reads the row of zeros behind the buckets
        self.position = torch.from_numpy(position).to(device)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim). A query with no visible key gives 0."""
        channels = q.shape[1] * q.shape[2]
        outputs = []
        for bucket in self.buckets:
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
        return torch.cat(outputs).index_select(0, self.position)


def segment_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """Attention of independent segments by the kernel that is fastest for their length.

    Args:
        q, k, v: (segments, heads, length, dim); mask: bool, True at visible keys, at least one a query.

    Returns:
        (segments, heads, query length, dim).
    """
    longest = PLAIN_UP_TO.get(q.dtype, 0) if q.device.type == "cpu" else 0
    if k.shape[2] > longest:
        return functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
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
    """Runs of tokens that share document and tag, as slices of ``order`` (token indices, stably sorted)."""

    def __init__(self, tokens: Ragged, chosen: np.ndarray | None, by_document: bool = False):
        index = np.arange(tokens.total) if chosen is None else np.flatnonzero(chosen)
        key = tokens.doc[index].astype(np.int64) << 32
        if not by_document:
            key = key + tokens.tag[index]
        sort = np.argsort(key, kind="stable")
        self.order = index[sort]
        self.keys, self.starts, self.lengths = np.unique(key[sort], return_index=True, return_counts=True)


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


def _untagged_buckets(queries: Ragged, keys: Ragged, free: np.ndarray, causal: bool) -> list[_HostBucket]:
    """One bucket a document for its queries with tag 0, which see every (earlier) position."""
    buckets = []
    for doc in np.unique(queries.doc[free]):
        query_index = np.flatnonzero(free & (queries.doc == doc))[None]
        first, last = keys.doc_starts[doc], keys.doc_starts[doc + 1]
        if causal:
            last = query_index.max() + 1
        key_index = np.arange(first, last)[None]
        if key_index.size == 0:
            continue
        mask = key_index[:, None, :] <= query_index[:, :, None] if causal else None
        buckets.append(_HostBucket(query_index, np.ones_like(query_index, dtype=bool), key_index, mask, False))
    return buckets
