"""Relative positions (Shaw et al. 2018): a query's score depends on its distance to the key.

The score of query i and key j is q_i . (k_j + r_d) / sqrt(dim) with d = clip(j - i, -c, c), i and j
positions in their
documents: their Eq. 4, without relative positions of values. This module computes q_i . r_d, from
q_i . r_d for all 2c + 1 distances. So no tensor of size queries x keys x dim is made.

The table has a learned vector (dim,) for every distance, shared by the heads; row d + c belongs to
distance d.
"""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_distance(queries: Tensor, keys: Tensor, table: Tensor) -> Tensor:
    """Return rows of the table for positions (..., Lq) and (..., Lk) int64: clip(j - i, -c, c) + c,
    (..., Lq, Lk).
    """
    clip = table.shape[0] // 2  # c, since the table has 2c + 1 rows
    return (keys.unsqueeze(-2) - queries.unsqueeze(-1)).clamp(-clip, clip) + clip


def relative_scores(q: Tensor, table: Tensor, rows: Tensor) -> Tensor:
    """Return q_i . r for the table row of each pair, in float32 (float64 stays).

    Many pairs have the same row: in half precision the gradients of these would not add up.

    Args:
        q: (segments, heads, Lq, dim); table: (2c + 1, dim); rows: (segments, Lq, Lk) int64.

    Returns:
        (segments, heads, Lq, Lk).
    """
    # 2c + 1 scores a query, of which each key then picks one by its distance.
    scores = torch.matmul(q, table.to(q.dtype).t()).to(torch.promote_types(q.dtype, torch.float32))
    return scores.gather(3, rows.unsqueeze(1).expand(-1, q.shape[1], -1, -1))
