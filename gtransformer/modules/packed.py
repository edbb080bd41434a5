"""The packed engine: attention per segment (sentence or document), linear in the number of sentences.

A segment is a set of queries with the same interval of keys. Segments of similar length are padded a little and
attended together in one bucket. For group attention no tensor of size length x length of the whole document is made
(Bao et al. 2021, section 4.1, "Complexity"). The banded engine attends its blocks in buckets, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.modules import varlen
from gtransformer.modules.ragged import on_device
from gtransformer.modules.reach import Reach, ReachPattern
from gtransformer.modules.relative import clipped_distance, relative_scores, skewed_scores

SHORTEST_CLASS = 8  # segments up to this length share a bucket
LONG = 128  # above it, length classes are finer, because attention on padding grows quadratically
# On the CPU, PyTorch's fused kernel is slower than plain products for short keys, and in bfloat16 its backward pass is
# slower for documents, too (docs/performance.md). Above these lengths the fused one needs less memory.
PLAIN_UP_TO = {torch.float32: 16, torch.bfloat16: 1024}
# Which keys of its segment a query sees: all; query i those up to i (as many queries as keys); or the first ones, as a
# mask tells.
EVERY_KEY, CAUSAL_KEYS, SOME_KEYS = range(3)
NOTHING = np.zeros(0, dtype=np.int64)


@dataclass
class HostBucket:
    """A ``Bucket`` as arrays on the host; ``query_real`` (segments, Lq) is False at padding.

    Padding repeats a real query or key.
    """

    query_index: np.ndarray
    query_real: np.ndarray
    key_index: np.ndarray
    mask: np.ndarray | None
    causal: bool = False
    diagonal: tuple[int, int] | None = None


@dataclass
class Bucket:
    """Segments attended in one kernel call.

    ``query_index`` (segments, Lq) and ``key_index`` (segments, Lk) int64 point into the packed tokens. ``mask`` is None
    or bool, broadcastable to (segments, 1, Lq, Lk), True where a key is visible. ``causal`` lets query i see keys up to
    i. ``diagonal`` (n, f): row i and column j of all segments are at the distance j - i + n, and no visible pair is
    further apart than f. ``rows``, by size of the table of relative positions: the table row of each pair.
    """

    query_index: Tensor
    key_index: Tensor
    mask: Tensor | None
    causal: bool
    diagonal: tuple[int, int] | None
    rows: dict[int, Tensor] = field(default_factory=dict)


class BucketPlan:
    """Buckets on the device, and the position of each query's result among their outputs, ``position`` (Nq,) int64.

    Args:
        before: queries whose results precede those of the buckets and are passed to ``attend``.
    """

    def __init__(self, reach: Reach, buckets: Sequence[HostBucket], before: np.ndarray = NOTHING):
        self.reach = reach
        position = np.full(len(reach.first), -1)
        position[before] = np.arange(len(before))
        filled = len(before)
        for bucket in buckets:
            position[bucket.query_index[bucket.query_real]] = filled + np.flatnonzero(bucket.query_real)
            filled += bucket.query_index.size
        position[position < 0] = filled  # a query with no key reads the row of zeros after the buckets
        # One copy to the device and one look-up for all buckets.
        queries, keys = [one.query_index for one in buckets], [one.key_index for one in buckets]
        flat = [np.concatenate([NOTHING, *map(np.ravel, side)]) for side in (queries, keys)]
        masks = [one.mask for one in buckets if one.mask is not None]
        upload = partial(on_device, device=reach.queries.device)
        self.position, self.query_index, self.key_index, *masks = map(upload, (position, *flat, *masks))
        self.query_shapes, self.key_shapes = [one.shape for one in queries], [one.shape for one in keys]
        sides = _cut(self.query_index, self.query_shapes), _cut(self.key_index, self.key_shapes)
        self.buckets = []
        for host, query, key in zip(buckets, *sides, strict=True):
            mask = None if host.mask is None else masks.pop(0).unsqueeze(1)
            self.buckets.append(Bucket(query, key, mask, host.causal, host.diagonal))

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None, before: tuple = ()
    ) -> Tensor:
        """See ``Pattern.attend``; ``before``: results of the queries ``before``, (n, heads * dim)."""
        outputs, channels = list(before), q.shape[1] * q.shape[2]
        if not (outputs or self.buckets):  # zeros, but with gradients for all inputs
            return q.new_zeros(len(q), channels) + 0.0 * sum(side[:1].sum() for side in (q, k, v))
        if self.buckets:
            if relative is not None:  # its gradient is a sum over buckets and clipped distances
                relative = relative.to(torch.promote_types(relative.dtype, torch.float32))
            queries = _cut(q.index_select(0, self.query_index), self.query_shapes)
            keys, values = (_cut(x.index_select(0, self.key_index), self.key_shapes) for x in (k, v))
            for bucket, *sides in zip(self.buckets, queries, keys, values, strict=True):
                bias = None if relative is None else partial(self._relative_scores, bucket, relative)
                found = segment_attention(*sides, bucket.mask, bucket.causal, dropout, bias)
                outputs.append(found.reshape(-1, channels))
        outputs.append(q.new_zeros(1, channels))
        return torch.cat(outputs).index_select(0, self.position)

    def _relative_scores(self, bucket: Bucket, table: Tensor, q: Tensor) -> Tensor:
        if bucket.diagonal is not None:
            return skewed_scores(q, table, *bucket.diagonal)
        size = table.shape[0]
        if size not in bucket.rows:
            queries, keys = self.reach.queries.offset, self.reach.keys.offset
            bucket.rows[size] = clipped_distance(queries[bucket.query_index], keys[bucket.key_index], table)
        return relative_scores(q, table, bucket.rows[size])


def segment_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    drop: float,
    bias: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Attend within independent segments, by the kernel that is fastest for their length.

    Args:
        q, k, v: (segments, length, heads, dim).
        mask: bool, broadcastable to (segments, 1, Lq, Lk), True at visible keys, at least one a query.
        drop: probability of dropping a weight.
        bias: computes from q / sqrt(dim), (segments, heads, Lq, dim), a term (segments, heads, Lq, Lk) that is added to
            q . k / sqrt(dim).

    Returns:
        (segments, Lq, heads, dim).
    """
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    longest = PLAIN_UP_TO.get(q.dtype, 0) if q.device.type == "cpu" else 0
    if bias is None and k.shape[2] > longest:
        return functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=drop, is_causal=causal
        ).transpose(1, 2)
    # No derivative needs the scores themselves, so they are changed in place.
    q = q * (1.0 / math.sqrt(q.shape[-1]))
    scores = torch.matmul(q, k.transpose(2, 3))
    if bias is not None:  # both terms are rounded: in half precision, sum and softmax are in float32
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).add_(bias(q))
    if causal:
        future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill_(future, -torch.inf)
    elif mask is not None:
        scores = scores.masked_fill_(~mask, -torch.inf)
    weights = functional.dropout(torch.softmax(scores, dim=-1), drop).to(v.dtype)
    return torch.matmul(weights, v).transpose(1, 2)


def _cut(flat: Tensor, shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Split tensors of all buckets, end to end (n, ...), into one (segments, length, ...) for each bucket."""
    parts = flat.split([math.prod(shape) for shape in shapes])
    return [part.view(*shape, *flat.shape[1:]) for part, shape in zip(parts, shapes, strict=True)]


class PackedPattern(ReachPattern):
    """Who sees whom, as a list of buckets of independent segments: queries of equal (first, end)."""

    def __init__(self, reach: Reach):
        super().__init__(reach)
        found = reach.intervals
        order, starts, lengths = found.queries, found.starts, found.lengths
        self._queries = order
        # For each segment: first query (in ``_queries``), their number, first key (in the order of keys), their number.
        self._segments = np.stack([starts, lengths, found.first, found.end - found.first], axis=1)
        # How many keys of its segment, from the first on, a query sees; and the kind of the segment.
        self._visible = reach.last[order] - reach.first[order]
        self._kinds = np.full(len(starts), EVERY_KEY)
        if len(starts) and (reach.last < reach.end).any():
            keys, column = self._segments[:, 3], np.arange(len(order)) - np.repeat(starts, lengths)
            everything = np.minimum.reduceat(self._visible, starts) == keys
            triangle = (lengths == keys) & np.logical_and.reduceat(self._visible == column + 1, starts)
            self._kinds = np.where(triangle, CAUSAL_KEYS, np.where(everything, EVERY_KEY, SOME_KEYS))

    @cached_property
    def bucketed(self) -> BucketPlan:
        """All segments in buckets of similar length."""
        return BucketPlan(self.reach, self._buckets())

    @cached_property
    def unpadded(self) -> tuple[varlen.VarlenSegments, BucketPlan | None] | None:
        """All segments for the kernel that takes unequal lengths; None if that kernel cannot express who sees whom.

        The plan restores the order of the queries; it is None if they are in order.
        """
        if len(set(self._kinds.tolist())) != 1 or self._kinds[0] == SOME_KEYS:
            return None
        causal, device = self._kinds[0] == CAUSAL_KEYS, self.reach.queries.device
        tokens = self.reach.queries.total, self.reach.keys.total
        segments = varlen.VarlenSegments(self._queries, self.reach.order, self._segments, tokens, causal, device)
        return segments, None if segments.query is None else BucketPlan(self.reach, [], segments.query_index)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None) -> Tensor:
        """See ``Pattern.attend``."""
        if relative is None and q.is_cuda and varlen.is_usable(q, dropout) and self.unpadded is not None:
            segments, plan = self.unpadded
            found = segments.attend(q, k, v).flatten(1)
            return found if plan is None else plan.attend(q, k, v, dropout, before=(found,))
        return self.bucketed.attend(q, k, v, dropout, relative)

    def _buckets(self) -> list[HostBucket]:
        classes = _length_class(np.maximum(self._segments[:, 1], self._segments[:, 3]))
        buckets = []
        for kind, value in sorted(set(zip(self._kinds.tolist(), classes.tolist(), strict=True))):
            start, length, first, width = self._segments[(self._kinds == kind) & (classes == value)].T
            query_index, query_real = _slices(self._queries, start, length, length.max())
            key_index, key_real = _slices(self.reach.order, first, width, width.max())
            # In a triangle, padding follows every real query and needs no mask.
            mask = None if kind == CAUSAL_KEYS or key_real.all() else key_real[:, None, :]
            if kind == SOME_KEYS:
                visible, _ = _slices(self._visible, start, length, length.max())
                mask = np.arange(width.max()) < visible[:, :, None]
            buckets.append(HostBucket(query_index, query_real, key_index, mask, kind == CAUSAL_KEYS))
        return buckets


def _slices(order: np.ndarray, start: np.ndarray, length: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (segments, columns): slices of ``order``, padded by their first element; and which elements are real."""
    column = np.arange(columns)
    real = column < length[:, None]
    return order[np.where(real, start[:, None] + column, start[:, None])], real


def _length_class(lengths: np.ndarray) -> np.ndarray:
    """Return length classes, which grow by 1.5, long ones by 1.1; a class is padded to its longest segment."""
    lengths = np.maximum(lengths, SHORTEST_CLASS)
    short = np.ceil(np.log(lengths / SHORTEST_CLASS) / math.log(1.5) - 1e-9)
    long = 1000 + np.ceil(np.log(lengths / LONG) / math.log(1.1) - 1e-9)
    return np.where(lengths > LONG, long, short).astype(np.int64)
