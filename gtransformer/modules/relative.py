"""Relative positions (Shaw et al. 2018): a query's score depends on its distance to the key.

The score of query i and key j is q_i . (k_j + r_d) / sqrt(dim) with d = clip(j - i, -c, c), i and j positions in their
documents: their Eq. 4, without relative positions of values. This module computes q_i . r_d, from q_i . r_d for all 2c
+ 1 distances. So no tensor of size queries x keys x dim is made.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def relative_table(clip: int, dim: int) -> nn.Embedding:
    """Make a learned vector (dim,) for every distance, shared by the heads; row d + c belongs to distance d.

    Keys further away than ``clip``, c, count as at distance c.
    """
    table = nn.Embedding.from_pretrained(torch.empty(2 * clip + 1, dim), freeze=False)
    nn.init.xavier_uniform_(table.weight)
    return table


def clipped_distance(queries: Tensor, keys: Tensor, table: Tensor) -> Tensor:
    """Return rows of the table for positions (..., Lq) and (..., Lk) int64: clip(j - i, -c, c) + c, (..., Lq, Lk)."""
    clip = table.shape[0] // 2
    return (keys.unsqueeze(-2) - queries.unsqueeze(-1)).clamp(-clip, clip) + clip


def relative_scores(q: Tensor, table: Tensor, rows: Tensor) -> Tensor:
    """Return q_i . r for the table row of each pair.

    Args:
        q: (segments, heads, Lq, dim); table: (2c + 1, dim); rows: (segments, Lq, Lk) int64.

    Returns:
        (segments, heads, Lq, Lk).
    """
    scores = _by_row(q, table)
    return scores.gather(3, rows.unsqueeze(1).expand(-1, q.shape[1], -1, -1))


def skewed_scores(q: Tensor, table: Tensor, nearest: int, furthest: int) -> Tensor:
    """Return the same where query row i and key column j are at distance j - i + nearest, without gathering.

    Scores by distance are columns, shifted right by one a row: padded to Lk + 1 columns and read again in rows of Lk.
    Pairs at other distances get 0; the caller must mask them.

    Args:
        q: (segments, heads, Lq, dim); table: (2c + 1, dim).
        nearest, furthest: the smallest and the largest distance of a visible pair, usually -w and w.

    Returns:
        (segments, heads, Lq, Lk) with Lk = Lq + furthest - nearest.
    """
    clip, scores = table.shape[0] // 2, _by_row(q, table)
    if nearest < -clip or furthest > clip:
        distances = torch.arange(nearest, furthest + 1, device=q.device).clamp(-clip, clip)
        scores = scores.index_select(-1, distances + clip)
    else:
        scores = scores[..., nearest + clip : furthest + clip + 1]
    rows, keys = q.shape[2], q.shape[2] + furthest - nearest
    wide = functional.pad(scores, (0, rows)).flatten(2)
    return wide[..., : rows * keys].unflatten(2, (rows, keys))


def _by_row(q: Tensor, table: Tensor) -> Tensor:
    """Return q . r for all rows of the table, (segments, heads, Lq, 2c + 1), in float32 (float64 stays).

    Many pairs of queries and keys have the same row. In half precision their gradients would not add up.
    """
    return torch.matmul(q, table.to(q.dtype).t()).to(torch.promote_types(q.dtype, torch.float32))
