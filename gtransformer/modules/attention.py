"""Multi-head attention over a pattern (Bao et al. 2021, Eq. 5, 8 and 9) and the gate that combines two (Eq. 10)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from gtransformer.modules.dense import DensePattern
from gtransformer.modules.linear import Linear
from gtransformer.modules.packed import PackedPattern
from gtransformer.modules.reach import Reach

ENGINES = {"dense": DensePattern, "packed": PackedPattern}


class Pattern(Protocol):
    """What an engine offers: who sees whom is settled when it is made, once for all layers and heads."""

    reach: Reach

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim)."""
        ...


def make_pattern(engine: str, reach: Reach) -> Pattern:
    """Attention within a reach by "dense" (masks, Eq. 6-7) or "packed" (per segment); both give the same result."""
    return ENGINES[engine](reach)


class MultiheadAttention(nn.Module):
    """Projections around attention (Eq. 5 and 8); parameters are named as in fairseq and the authors' release.

    Args:
        channels: model dimension, also of the output.
        heads: number of heads; must divide ``channels``.
        dropout: probability of dropping an attention weight in training.
        memory_channels: dimension of keys' and values' input; default ``channels``.
        scopes: how many patterns ``forward`` is given; what the heads find at each is concatenated.
    """

    def __init__(
        self, channels: int, heads: int, dropout: float = 0.0, memory_channels: int | None = None, scopes: int = 1
    ):
        super().__init__()
        if channels % heads:
            raise ValueError(f"{heads} attention heads do not divide the model dimension {channels}")
        self.heads, self.dropout = heads, dropout
        memory_channels = memory_channels or channels
        self.k_proj = Linear(memory_channels, channels)
        self.v_proj = Linear(memory_channels, channels)
        self.q_proj = Linear(channels, channels)
        self.out_proj = Linear(scopes * channels, channels)
        # Glorot, scaled as if the three input projections were one matrix (what fairseq's Transformer does).
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def split(self, x: Tensor) -> Tensor:
        """(..., channels) -> (..., heads, dim)."""
        return x.unflatten(-1, (self.heads, -1))

    def split_parts(self, x: Tensor) -> list[Tensor]:
        """Several projections side by side, (n, parts * channels) -> a list of (n, heads, dim)."""
        return [self.split(part) for part in x.split(self.q_proj.out_features, dim=-1)]

    def forward(self, x: Tensor, memory: Tensor, *patterns: Pattern) -> Tensor:
        """x (Nq, channels), memory (Nk, memory_channels) -> (Nq, channels)."""
        q = self.split(self.q_proj(x))
        k = self.split(self.k_proj(memory))
        v = self.split(self.v_proj(memory))
        dropout = self.dropout if self.training else 0.0
        found = [pattern.attend(q, k, v, dropout) for pattern in patterns]
        return self.out_proj(found[0] if len(found) == 1 else torch.cat(found, dim=-1))


def make_gate(channels: int) -> nn.Sequential:
    """The gate of Eq. 10: sigmoid([H_L, H_G] W + b)."""
    return nn.Sequential(Linear(2 * channels, channels), nn.Sigmoid())


def gated_sum(gate: nn.Module, local: Tensor, global_: Tensor) -> Tensor:
    """Eq. 10: H = H_L * g + H_G * (1 - g); all (..., channels)."""
    g = gate(torch.cat([local, global_], dim=-1))
    return local * g + global_ * (1 - g)
