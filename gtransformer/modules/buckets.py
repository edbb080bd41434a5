"""Attention in buckets: segments of similar shape, queries against keys, padded a little and attended in one call.

What ``packed`` (segments of queries that have their keys in common) and ``banded`` (blocks of neighbours against all
keys that any of them sees) share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.modules.reach import Reach
from gtransformer.modules.relative import clipped_distance, relative_scores, skewed_scores
from gtransformer.modules.upload import on_device

# On the CPU, PyTorch's fused kernel is slower than plain products for short keys, and in bfloat16 its backward pass is
# slower for documents, too (docs/performance.md); beyond these lengths memory decides for the fused one.
PLAIN_UP_TO = {torch.float32: 16, torch.bfloat16: 1024}


@dataclass
class HostBucket:
    """Segments of similar shape as indices on the host.

    query_index (segments, Lq), key_index (segments, Lk) int64 and query_real (segments, Lq), False at padding, which
    repeats a real query; mask bool, broadcastable to (segments, Lq, Lk), or None; causal and diagonal as in Bucket.
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

    query_index (segments, Lq) and key_index (segments, Lk) int64 point into the packed tokens; mask is None or bool,
    broadcastable to (segments, 1, Lq, Lk), True where a key is visible; causal lets query i see keys up to i.
    ``diagonal`` (n, f): row i and column j of all segments are at the distance j - i + n, and no visible pair is
    further apart than f. ``rows``, by size of the table: which of its rows relative positions ask for.
    """

    query_index: Tensor
    key_index: Tensor
    mask: Tensor | None
    causal: bool
    diagonal: tuple[int, int] | None = None
    rows: dict[int, Tensor] = field(default_factory=dict)


@dataclass
class BucketPlan:
    """All buckets, and where each query's result lies among their outputs, ``position`` (Nq,) int64."""

    reach: Reach
    buckets: list[Bucket]
    position: Tensor

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None, before: tuple = ()
    ) -> Tensor:
        """q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim), zero where nothing is visible.

        Args:
            relative: (2c + 1, dim) vectors of relative positions.
            before: results of queries, (n, heads * dim), that stand in front of those of the buckets.
        """
        outputs = list(before)
        channels = q.shape[1] * q.shape[2]
        if not (outputs or self.buckets):  # zeros, of which everything has a gradient all the same
            return q.new_zeros(len(q), channels) + 0.0 * sum(side[:1].sum() for side in (q, k, v))
        gathered = [gather(x, *self.indices[side]) for x, side in ((q, 0), (k, 1), (v, 1))] if self.buckets else []
        for bucket, *sides in zip(self.buckets, *gathered, strict=True):
            bias = None if relative is None else partial(self._relative_scores, bucket, relative)
            output = segment_attention(*sides, bucket.mask, bucket.causal, dropout, bias)
            outputs.append(output.transpose(1, 2).reshape(-1, channels))
        outputs.append(q.new_zeros(1, channels))
        return torch.cat(outputs).index_select(0, self.position)

    @cached_property
    def indices(self) -> list[tuple[Tensor, list[torch.Size]]]:
        """Of queries and of keys: what all buckets point at, flat, and the shapes of theirs."""
        sides = [[b.query_index for b in self.buckets], [b.key_index for b in self.buckets]]
        return [(torch.cat([index.flatten() for index in side]), [index.shape for index in side]) for side in sides]

    def _relative_scores(self, bucket: Bucket, table: Tensor, q: Tensor) -> Tensor:
        if bucket.diagonal is not None:
            return skewed_scores(q, table, *bucket.diagonal)
        size = table.shape[0]
        if size not in bucket.rows:
            queries, keys = self.reach.queries.offset, self.reach.keys.offset
            bucket.rows[size] = clipped_distance(queries[bucket.query_index], keys[bucket.key_index], table)
        return relative_scores(q, table, bucket.rows[size])


def make_plan(reach: Reach, buckets: Iterable[HostBucket], before: np.ndarray | None = None) -> BucketPlan:
    """Buckets on the device; results of the queries ``before`` come in front of theirs."""
    device = reach.queries.device
    before = np.zeros(0, dtype=np.int64) if before is None else before
    position = np.full(reach.queries.total, -1)
    position[before] = np.arange(len(before))
    filled, made = len(before), []
    for bucket in buckets:
        index, real = bucket.query_index, bucket.query_real
        position[index[real]] = filled + np.flatnonzero(real.ravel())
        filled += index.size
        mask = None if bucket.mask is None else on_device(bucket.mask, device).unsqueeze(1)
        sides = (on_device(side.ravel(), device).view(side.shape) for side in (index, bucket.key_index))
        made.append(Bucket(*sides, mask, bucket.causal, bucket.diagonal))
    position[position < 0] = filled  # a query with no key reads the row of zeros behind the buckets
    return BucketPlan(reach, made, on_device(position, device))


def segment_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    dropout: float,
    bias: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Attention of independent segments by the kernel that is fastest for their length.

    Args:
        q, k, v: (segments, heads, length, dim); mask: bool, True at visible keys, at least one a query.
        bias: of q / sqrt(dim) makes (segments, heads, query length, key length), which is added to q . k / sqrt(dim).

    Returns:
        (segments, heads, query length, dim).
    """
    longest = PLAIN_UP_TO.get(q.dtype, 0) if q.device.type == "cpu" else 0
    if bias is None and k.shape[2] > longest:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    # No derivative needs the scores themselves, so all that is done to them can be done in place.
    q = q * (1.0 / math.sqrt(q.shape[-1]))
    scores = torch.matmul(q, k.transpose(2, 3))
    if bias is not None:  # two roundings already, so in half precision the sum and its softmax are float32's
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).add_(bias(q))
    if causal:
        future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill_(future, -torch.inf)
    elif mask is not None:
        scores = scores.masked_fill_(~mask, -torch.inf)
    return torch.matmul(functional.dropout(torch.softmax(scores, dim=-1), dropout).to(v.dtype), v)


def gather(x: Tensor, index: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """(N, heads, dim) -> (segments, heads, length, dim) for each bucket, all by one look-up with one gradient of x.

    Args:
        index: what the buckets point at, one behind the other.
        shapes: (segments, length) of each.
    """
    parts = x.index_select(0, index).split([shape.numel() for shape in shapes])
    return [part.view(*shape, *x.shape[1:]).transpose(1, 2) for part, shape in zip(parts, shapes, strict=True)]
