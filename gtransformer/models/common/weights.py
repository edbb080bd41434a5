"""Attention weights worked out beside a model from what its attention modules are given, for whoever measures them.

Segment by segment and in blocks, so that nothing of size (tokens, tokens) of a batch is ever made.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from gtransformer.modules.attention import MultiheadAttention, Pattern
from gtransformer.modules.dense import DensePattern, attention_weights
from gtransformer.modules.packed import Bucket
from gtransformer.modules.reach import Reach
from gtransformer.modules.relative import clipped_distance

WEIGHTS_AT_ONCE = 1 << 24  # attention weights in memory at a time: 64 MiB in float32


class Measure(Protocol):
    """Some numbers for each query of a block of segments, of its weights."""

    def __call__(self, weights: Tensor, allowed: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """-> (segments, Lq, numbers).

        Args:
            weights: (segments, heads, Lq, Lk), zero where nothing is seen; float32 or float64.
            allowed: (segments, Lq, Lk) bool, who sees whom.
            queries, keys: (segments, Lq) and (segments, Lk) int64, which packed tokens these are.
        """
        ...


def projections(
    module: MultiheadAttention, x: Tensor, memory: Tensor, reach: Reach
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Queries (Nq, heads, dim), keys (Nk, heads, dim) and vectors of relative positions, as exact as the parameters."""
    dtype = module.q_proj.weight.dtype
    with torch.autocast(x.device.type, enabled=False):
        q, k = module.queries(x.to(dtype), reach.queries), module.keys(memory.to(dtype), reach.keys)
        return q, k, None if module.relative is None else module.relative().to(dtype)


def per_query(
    q: Tensor, k: Tensor, pattern: Pattern, numbers: int, measure: Measure, relative: Tensor | None = None
) -> Tensor:
    """Measure the attention of every query.

    Args:
        q: (Nq, heads, dim) and k: (Nk, heads, dim), packed; computed in float32, or float64 if they are.
        pattern: who sees whom, of any engine.
        numbers: how many ``measure`` gives for a query.
        relative: (2c + 1, dim), vectors of relative positions.

    Returns:
        (Nq, numbers), 0 for a query that may see no key.
    """
    if q.dtype != torch.float64:
        q, k = q.float(), k.float()
    reach = pattern.reach
    with torch.autocast(q.device.type, enabled=False):
        if isinstance(pattern, DensePattern):
            sides = (side.pad(torch.arange(side.total, device=q.device)) for side in (reach.queries, reach.keys))
            return reach.queries.pack(_in_blocks(q, k, reach, *sides, pattern.allowed, measure, relative))
        plan = pattern.bucketed
        found = []
        for bucket in plan.buckets:
            sides = bucket.query_index, bucket.key_index
            found.append(_in_blocks(q, k, reach, *sides, _allowed(bucket), measure, relative).flatten(0, 1))
        # Behind the buckets stands the row of the queries that see nothing.
        return torch.cat([*found, q.new_zeros(1, numbers)]).index_select(0, plan.position)


def _allowed(bucket: Bucket) -> Tensor:
    """Who sees whom in a bucket of an engine, (segments, queries, keys) bool, nothing copied."""
    (segments, queries), keys = bucket.query_index.shape, bucket.key_index.shape[1]
    if bucket.causal:
        mask = torch.ones(queries, keys, dtype=torch.bool, device=bucket.key_index.device).tril()
    elif bucket.mask is not None:
        mask = bucket.mask.squeeze(1)
    else:
        mask = torch.ones(1, 1, 1, dtype=torch.bool, device=bucket.key_index.device)
    return mask.expand(segments, queries, keys)


def _in_blocks(
    q: Tensor,
    k: Tensor,
    reach: Reach,
    queries: Tensor,
    keys: Tensor,
    allowed: Tensor,
    measure: Measure,
    relative: Tensor | None,
) -> Tensor:
    """What ``measure`` finds in segments, (segments, Lq, numbers), at most WEIGHTS_AT_ONCE weights at a time.

    ``queries`` (segments, Lq), ``keys`` (segments, Lk) and ``allowed`` (segments, Lq, Lk) are ``Measure``'s. A block
    has at least one query of one segment.
    """
    rows = max(1, WEIGHTS_AT_ONCE // (q.shape[1] * keys.shape[1]))  # queries of one segment at a time
    several = max(1, rows // queries.shape[1])  # short segments at a time
    found = []
    for first in range(0, len(queries), several):
        part = slice(first, first + several)
        own, blocks = k[keys[part]], []
        for row in range(0, queries.shape[1], rows):
            here, seen, far = queries[part, row : row + rows], allowed[part, row : row + rows], None
            if relative is not None:
                far = clipped_distance(reach.queries.offset[here], reach.keys.offset[keys[part]], relative)
            weights = attention_weights(q[here], own, seen, relative, far)
            blocks.append(measure(weights, seen, here, keys[part]))
        found.append(torch.cat(blocks, dim=1))
    return torch.cat(found)
