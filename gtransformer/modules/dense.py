"""The dense engine: group attention written out with masks (Bao et al. 2021, Eq. 4, 6 and 7).

Quadratic in document length, slow and obviously right: the oracle that every other engine is tested against.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.modules.ragged import Ragged


class DensePattern:
    """Which key each query may see, as a (batch, queries, keys) mask.

    Args:
        queries, keys: layouts of the two sides (the same object in self-attention).
        local: True for group attention, False for global attention.
        causal: True if a query sees only keys up to its own position.
    """

    def __init__(self, queries: Ragged, keys: Ragged, local: bool, causal: bool):
        self.queries, self.keys = queries, keys
        self.allowed = visible(
            queries.pad(torch.from_numpy(queries.tag).to(queries.device)),
            keys.pad(torch.from_numpy(keys.tag).to(keys.device)),
            keys.pad(torch.ones(keys.total, dtype=torch.bool, device=keys.device)),
            local,
            queries.pad(queries.offset) if causal else None,
        )

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim). A query with no visible key gives 0."""
        q, k, v = self.queries.pad(q), self.keys.pad(k), self.keys.pad(v)
        weights = attention_weights(q, k, self.allowed)
        weights = functional.dropout(weights, dropout).to(v.dtype)
        return self.queries.pack(torch.einsum("bhqk,bkhd->bqhd", weights, v)).flatten(1)


def visible(query_tags: Tensor, key_tags: Tensor, key_real: Tensor, local: bool, offset: Tensor | None) -> Tensor:
    """The mask of Eq. 7 as booleans: True where a query may see a key.

    Args:
        query_tags: (batch, queries); key_tags: (batch, keys); key_real: (batch, keys), True at real tokens.
        local: restrict to equal tags.
        offset: (batch, length) position in the document, if a query sees only keys up to its own position.

    Returns:
        (batch, queries, keys) bool.
    """
    allowed = key_real.unsqueeze(1).expand(-1, query_tags.shape[1], -1)
    if local:
        allowed = allowed & query_tags.unsqueeze(2).eq(key_tags.unsqueeze(1))
    if offset is not None:
        allowed = allowed & (offset.unsqueeze(1) <= offset.unsqueeze(2))
    return allowed


def attention_weights(q: Tensor, k: Tensor, allowed: Tensor) -> Tensor:
    """Softmax of Eq. 6 in float32 (or float64): q (batch, queries, heads, dim), k likewise -> (batch, heads, q, k).

    Rows without a visible key are all zero.
    """
    scores = torch.einsum("bqhd,bkhd->bhqk", q * (1.0 / math.sqrt(q.shape[-1])), k)
    scores = scores.to(torch.float64 if q.dtype == torch.float64 else torch.float32)
    blocked = ~allowed.unsqueeze(1)
    weights = torch.softmax(scores.masked_fill(blocked, -torch.inf), dim=-1)
    return weights.masked_fill(blocked.all(dim=-1, keepdim=True), 0.0)
