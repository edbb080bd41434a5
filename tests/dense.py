"""The dense engine: attention written out with masks (Bao et al. 2021, Eq. 4, 6 and 7).

It is quadratic in document length and slow. It is the reference that every other engine is tested
against.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.modules.packed import PackedPattern
from gtransformer.modules.ragged import on_device
from gtransformer.modules.reach import Reach
from gtransformer.modules.relative import clipped_distance, relative_scores


class DensePattern(PackedPattern):
    """Which key each query may see, as a (batch, queries, keys) mask.

    A key is visible if its number lies in the query's interval. Documents are padded to the
    longest; padding has the number -1, which is in no interval.
    """

    def __init__(self, reach: Reach):
        self.reach, self.queries, self.keys = reach, reach.queries, reach.keys
        # Numbers are padded one too high, so that padding, 0, becomes -1.
        numbers = 1 + torch.arange(self.keys.total, device=self.keys.device)
        numbers = self.keys.pad(numbers).unsqueeze(1) - 1
        first, last = (
            self.queries.pad(on_device(bound, self.queries.device)).unsqueeze(2)
            for bound in (reach.first, reach.last)
        )
        self.allowed = (first <= numbers) & (numbers < last)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None
    ) -> Tensor:
        """See ``Pattern.attend``."""
        q, k, v = self.queries.pad(q), self.keys.pad(k), self.keys.pad(v)
        rows = None
        if relative is not None:
            queries, keys = self.queries.pad(self.queries.offset), self.keys.pad(self.keys.offset)
            rows = clipped_distance(queries, keys, relative)
        weights = attention_weights(q, k, self.allowed, relative, rows)
        weights = functional.dropout(weights, dropout).to(v.dtype)
        return self.queries.pack(torch.einsum("bhqk,bkhd->bqhd", weights, v)).flatten(1)


def attention_weights(
    q: Tensor,
    k: Tensor,
    allowed: Tensor,
    relative: Tensor | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    """Return the softmax of Eq. 6 in float32 (or float64): q, k (batch, length, heads, dim) ->
    (batch, heads, q, k).

    Rows without a visible key are all zero. ``relative`` (2c + 1, dim) are vectors of relative
    positions, ``rows`` (batch, queries, keys) int64 the vector of each pair, which is added to the
    key (Shaw et al. 2018, Eq. 4).
    """
    q = q * (1.0 / math.sqrt(q.shape[-1]))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
    scores = scores.to(torch.float64 if q.dtype == torch.float64 else torch.float32)
    if relative is not None:
        scores = scores + relative_scores(q.transpose(1, 2), relative, rows).to(scores.dtype)
    blocked = ~allowed.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(blocked, -torch.inf), dim=-1)
    return weights.masked_fill(blocked.all(dim=-1, keepdim=True), 0.0)
