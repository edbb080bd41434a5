"""Multi-head attention over one or several patterns (Bao et al. 2021, Eq. 5, 8 and 9), and gates that join two results.

* ``MultiheadAttention``: several scopes of one attention, concatenated (Zhang et al. 2020).
* ``Gate``: two attentions with parameters of their own, mixed channel by channel (Bao et al. 2021, Eq. 10).
* ``ResidualGate``: a state and the result of one attention, instead of the residual connection (Zhang et al. 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.modules.banded import BandedPattern, slides
from gtransformer.modules.dense import DensePattern
from gtransformer.modules.kernels import Linear
from gtransformer.modules.packed import PackedPattern
from gtransformer.modules.positions import SentenceNumbers
from gtransformer.modules.ragged import Ragged, on_device
from gtransformer.modules.reach import Reach
from gtransformer.modules.relative import relative_table

ENGINES = {"dense": DensePattern, "packed": PackedPattern, "banded": BandedPattern}


class Pattern(Protocol):
    """Who sees whom, computed once for all layers and heads: an engine's, or that of a step of decoding."""

    queries: Ragged

    def keys_and_values(self, module: MultiheadAttention, states: Tensor) -> Sequence:
        """Return keys and values of a module in the form that ``attend`` takes; ``states`` (Nk, channels)."""
        ...

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None) -> Tensor:
        """Attend: q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim), 0 for a query with no visible key.

        ``relative`` (2c + 1, dim): vectors of relative positions (``relative.py``).
        """
        ...


def make_pattern(engine: str, reach: Reach) -> Pattern:
    """Make the pattern of a reach; all engines give the same result.

    ``engine`` is "dense" (masks, Eq. 6-7), "packed" or "banded". "packed" becomes "banded" where intervals slide.
    """
    if engine == "packed" and reach.overlaps and slides(reach):
        engine = "banded"
    return ENGINES[engine](reach)


class MultiheadAttention(nn.Module):
    """Attention with its projections (Eq. 5 and 8); parameters are named as in fairseq and the authors' release.

    Args:
        channels: model dimension, also of the output.
        heads: number of heads; must divide ``channels``.
        dropout: probability of dropping an attention weight in training.
        memory_channels: dimension of keys' and values' input; default ``channels``.
        scopes: number of patterns that the same queries, keys and values are attended over; the results are
            concatenated before the output projection (LST attention, Zhang et al. 2020).
        relative: with relative positions, learned vectors for distances clipped at this one (``relative.py``).
        numbered: embeddings of sentence numbers are added to queries and keys, each by a map of its own that is zero at
            first. The engines need no change for this.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        dropout: float = 0.0,
        memory_channels: int | None = None,
        scopes: int = 1,
        relative: int | None = None,
        numbered: bool = False,
    ):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        memory_channels = memory_channels or channels
        self.k_proj = Linear(memory_channels, channels)
        self.v_proj = Linear(memory_channels, channels)
        self.q_proj = Linear(channels, channels)
        self.out_proj = Linear(scopes * channels, channels)
        self.relative = relative_table(relative, channels // heads) if relative is not None else None
        self.query_numbers, self.key_numbers = (SentenceNumbers(channels, True) if numbered else None for _ in "qk")
        # Glorot, scaled as if the three input projections were one matrix (as in fairseq's Transformer if sizes are
        # equal).
        gain = 2**-0.5 if memory_channels == channels else 1.0
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor, memory: Tensor, *patterns: Pattern) -> Tensor:
        """Attend: x (Nq, channels), memory (Nk, memory_channels), a pattern for each scope -> (Nq, channels)."""
        q = self.queries(x, patterns[0].queries)
        k, v = patterns[0].keys_and_values(self, memory)
        dropout = self.dropout if self.training else 0.0
        relative = None if self.relative is None else self.relative.weight
        found = [pattern.attend(q, k, v, dropout, relative) for pattern in patterns]
        return self.out_proj(found[0] if len(found) == 1 else torch.cat(found, dim=-1))

    def queries(self, x: Tensor, layout: Ragged) -> Tensor:
        """Project x (Nq, channels) -> (Nq, heads, dim)."""
        return self.add_sentence_embedding(self.split(self.q_proj(x)), self.query_numbers, layout.tag)

    def keys(self, memory: Tensor, layout: Ragged) -> Tensor:
        """Project memory (Nk, memory_channels) -> (Nk, heads, dim)."""
        return self.add_sentence_embedding(self.split(self.k_proj(memory)), self.key_numbers, layout.tag)

    def keys_and_values(self, memory: Tensor, layout: Ragged) -> list[Tensor]:
        """Project memory (Nk, memory_channels) -> two of (Nk, heads, dim)."""
        return [self.keys(memory, layout), self.split(self.v_proj(memory))]

    def split(self, x: Tensor) -> Tensor:
        """Split (..., channels) -> (..., heads, dim)."""
        return x.view(*x.shape[:-1], self.heads, x.shape[-1] // self.heads)

    def add_sentence_embedding(self, side: Tensor, numbers: SentenceNumbers | None, tags: np.ndarray) -> Tensor:
        """Add embedded sentence numbers, tags (n,) int64, to queries or keys (n, heads, dim), if ``numbers`` exist."""
        if numbers is None:
            return side
        distinct, inverse = (on_device(one, side.device) for one in np.unique(tags, return_inverse=True))
        return side + self.split(numbers(distinct, side.dtype).to(side.dtype).index_select(0, inverse))


class Gate(nn.Sequential):
    """The gate of Eq. 10: sigmoid([H_L, H_G] W + b), in float32 (float64 stays).

    In bfloat16 the sigmoid of 6.5 is exactly 1: nearly shut gates would have no gradient and stay shut. W is
    initialised as in the release (Glorot and Bengio 2010).

    Args:
        bias: initial value of all of b; the release's is 0.
    """

    def __init__(self, channels: int, bias: float = 0.0):
        super().__init__(Linear(2 * channels, channels))
        nn.init.xavier_uniform_(self[0].weight)
        nn.init.constant_(self[0].bias, bias)

    def forward(self, both: Tensor) -> Tensor:
        """Compute the gate from [H_L, H_G] (..., 2 * channels) -> (..., channels)."""
        return open_gate(self[0](both))


def open_gate(logits: Tensor) -> Tensor:
    """Return the sigmoid of a gate's linear output, in float32 (float64 stays)."""
    return torch.sigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))


def mixed(g: Tensor, local: Tensor, global_: Tensor) -> Tensor:
    """Return Eq. 10: H = H_L * g + H_G * (1 - g); all (..., channels), computed in the gate's type, returned in
    ``local``'s.
    """
    return (local * g + global_ * (1 - g)).to(local.dtype)


class ResidualGate(nn.Module):
    """Eq. 22 of Zhang et al. (2018): lambda = sigmoid(W_i H + W_s C), two square matrices without bias."""

    def __init__(self, channels: int):
        super().__init__()
        self.own_proj = Linear(channels, channels, bias=False)
        self.found_proj = Linear(channels, channels, bias=False)

    def forward(self, own: Tensor, found: Tensor) -> Tensor:
        """Compute lambda (..., channels) from states H and the result C of their attention, (..., channels)."""
        return torch.sigmoid(self.own_proj(own) + self.found_proj(found))
