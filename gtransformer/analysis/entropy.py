"""Entropy of attention in bits, how far it spreads: low where a query looks at few keys, log2 n if flat over n.

What Bao et al. (2021) draw in Figures 4, 5 and 8 and read as the sign of a local minimum (section 3.2, "Attention
Distribution"). For one query with weights p over the keys that it may see, H = -sum p_i log2 p_i, where p is the mean
over the heads of their weights (Eq. 4 or 6), as in the authors' release, or, on request, those of each head alone.

Weights are worked out beside the model from what its attention modules are given, segment by segment and in blocks, so
that nothing of size (tokens, tokens) of a batch is ever made. Left out: padding, and queries that may see no key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gtransformer.analysis.watching import AttentionSite, can_be_watched, watching
from gtransformer.errors import UserError
from gtransformer.modules.attention import MultiheadAttention, Pattern
from gtransformer.modules.buckets import Bucket
from gtransformer.modules.dense import DensePattern, attention_weights
from gtransformer.modules.relative import clipped_distance

WEIGHTS_AT_ONCE = 1 << 24  # attention weights in memory at a time: 64 MiB in float32


def entropy_bits(weights: Tensor) -> Tensor:
    """-sum p log2 p over the last dimension, with 0 log 0 = 0; (..., keys) probabilities -> (...)."""
    return torch.special.entr(weights).sum(dim=-1) / math.log(2)


def query_entropies(
    q: Tensor, k: Tensor, pattern: Pattern, per_head: bool = False, relative: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Entropy of each query's attention.

    Args:
        q: (Nq, heads, dim) and k: (Nk, heads, dim), packed; computed in float32, or float64 if they are.
        pattern: who sees whom, of any engine.
        per_head: an entropy for each head instead of one of the mean over heads.
        relative: (2c + 1, dim), vectors of relative positions.

    Returns:
        bits (Nq, 1 or heads), 0 for a query that may see no key; and how many keys each may see, (Nq,) int64.
    """
    if q.dtype != torch.float64:
        q, k = q.float(), k.float()
    queries, keys = pattern.queries, pattern.keys
    if isinstance(pattern, DensePattern):
        positions = queries.pad(queries.offset), keys.pad(keys.offset)
        bits = _row_entropies(queries.pad(q), keys.pad(k), pattern.allowed, per_head, positions, relative)
        return queries.pack(bits), queries.pack(pattern.allowed.sum(dim=-1))
    plan = pattern.bucketed
    bits, counts = [], []
    for bucket in plan.buckets:
        allowed = _allowed(bucket)
        positions = queries.offset[bucket.query_index], keys.offset[bucket.key_index]
        rows = _row_entropies(q[bucket.query_index], k[bucket.key_index], allowed, per_head, positions, relative)
        bits.append(rows.flatten(0, 1))
        counts.append(allowed.sum(dim=-1).flatten())
    # Behind the buckets stands the row of the queries that see nothing.
    bits.append(q.new_zeros(1, q.shape[1] if per_head else 1))
    counts.append(plan.position.new_zeros(1))
    return torch.cat(bits).index_select(0, plan.position), torch.cat(counts).index_select(0, plan.position)


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


def _row_entropies(
    q: Tensor, k: Tensor, allowed: Tensor, per_head: bool, positions: tuple[Tensor, Tensor], relative: Tensor | None
) -> Tensor:
    """q and k (segments, length, heads, dim), allowed (segments, queries, keys) -> (segments, queries, 1 or heads).

    ``positions`` of queries and keys in their documents, (segments, length) each, are what ``relative`` asks for. In
    blocks of at most WEIGHTS_AT_ONCE weights (at least one query of one segment).
    """
    segments, queries, heads, _ = q.shape
    rows = max(1, WEIGHTS_AT_ONCE // (heads * k.shape[1]))  # queries of one segment at a time
    several = max(1, rows // queries)  # short segments at a time
    found = []
    for first in range(0, segments, several):
        part = slice(first, first + several)
        blocks = []
        for row in range(0, queries, rows):
            here = slice(row, row + rows)
            far = None
            if relative is not None:
                far = clipped_distance(positions[0][part, here], positions[1][part], relative)
            weights = attention_weights(q[part, here], k[part], allowed[part, here], relative, far)
            weights = weights if per_head else weights.mean(dim=1, keepdim=True)
            blocks.append(entropy_bits(weights).transpose(1, 2))
        found.append(torch.cat(blocks, dim=1))
    return torch.cat(found)


@dataclass
class Tally:
    """Sums over the queries of one attention layer.

    bits: (1 or heads,) float64; flat: the sum of log2 n, what the entropies would be if each query attended evenly to
    the n keys that it may see; queries: how many were counted.
    """

    bits: Tensor
    flat: float = 0.0
    queries: int = 0

    def mean(self) -> list[float]:
        """Mean entropy over queries, in bits: one number, or one for each head."""
        return (self.bits / max(self.queries, 1)).tolist()


@dataclass
class EntropyMeter:
    """Collects the entropy of every attention layer over all batches that a model sees while it is watched."""

    per_head: bool = False
    tallies: dict[AttentionSite, Tally] = field(default_factory=dict)

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        """Measure while the model runs. Raises UserError for a model of another kind."""
        if not can_be_watched(model):
            raise UserError(f"{type(model).__name__}: attention entropy is measured for G-Transformer models only")
        with watching(model, self.see):
            yield

    @torch.no_grad()
    def see(
        self, place: AttentionSite, module: MultiheadAttention, x: Tensor, memory: Tensor, pattern: Pattern
    ) -> None:
        """Add the queries of one call of an attention module."""
        dtype = module.q_proj.weight.dtype
        with torch.autocast(x.device.type, enabled=False):  # as exact as the weights are
            q = module.split(module.q_proj(x.to(dtype)))
            k = module.split(module.k_proj(memory.to(dtype)))
            relative = None if module.relative is None else module.relative().to(q.dtype)
            bits, keys = query_entropies(q, k, pattern, self.per_head, relative)
        counted = keys > 0
        bits, keys = bits[counted].double(), keys[counted].double()
        tally = self.tallies.setdefault(place, Tally(torch.zeros(bits.shape[1], dtype=torch.float64)))
        tally.bits += bits.sum(dim=0).cpu()
        tally.flat += float(keys.log2().sum())
        tally.queries += len(keys)

    def by_kind(self) -> dict[tuple[str, str], Tally]:
        """Layers of the same part and reach together: every query counts once for each of its layers."""
        kinds: dict[tuple[str, str], Tally] = {}
        for place, tally in self.tallies.items():
            kind = kinds.setdefault((place.part, place.reach), Tally(torch.zeros_like(tally.bits)))
            kind.bits += tally.bits
            kind.flat += tally.flat
            kind.queries += tally.queries
        return kinds

    def to_json(self) -> list[dict]:
        """For a result file, a record for each layer; ``bits`` is a list of one mean entropy, or one for each head."""
        return [
            {
                "part": place.part,
                "reach": place.reach,
                "layer": place.layer,
                "queries": tally.queries,
                "bits": [round(value, 6) for value in tally.mean()],
                "flat": round(tally.flat / max(tally.queries, 1), 6),
            }
            for place, tally in sorted(
                self.tallies.items(), key=lambda item: (item[0].part, item[0].reach, item[0].layer)
            )
        ]
