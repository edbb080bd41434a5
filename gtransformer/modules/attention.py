"""Multi-head attention over one or several patterns (Bao et al. 2021, Eq. 5, 8 and 9), and gates
that join two results.

* ``MultiheadAttention``: several scopes of one attention, concatenated (Zhang et al. 2020).
* ``Gate``: two attentions with parameters of their own, mixed channel by channel (Bao et al. 2021,
  Eq. 10).
* ``ResidualGate``: a state and the result of one attention, instead of the residual connection
  (Zhang et al. 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gtransformer.modules.kernels import Linear, PackedLinear
from gtransformer.modules.positions import SentenceNumbers
from gtransformer.modules.ragged import Ragged, on_device


class Pattern(Protocol):
    """Who sees whom, computed once for all layers and heads: an engine's, or that of a step of
    decoding.
    """

    queries: Ragged

    def project(self, module: MultiheadAttention, x: Tensor, memory: Tensor) -> Sequence:
        """Return queries of x (Nq, channels), and keys and values of memory (Nk, memory_channels),
        as ``attend`` takes them.
        """
        ...

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None
    ) -> Tensor:
        """Attend: q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim), 0 for a query
        with no visible key.

        ``relative`` (2c + 1, dim): vectors of relative positions (``relative.py``).
        """
        ...


class MultiheadAttention(nn.Module):
    """Attention with its projections (Eq. 5 and 8); parameters are named as in fairseq and the
    authors' release.

    Args:
        channels: model dimension, also of the output.
        heads: number of heads; must divide ``channels``.
        dropout: probability of dropping an attention weight in training.
        memory_channels: dimension of keys' and values' input; default ``channels``.
        scopes: number of patterns that the same queries, keys and values are attended over; the
            results are concatenated before the output projection (LST attention, Zhang et al.
            2020).
        relative: with relative positions, learned vectors for distances clipped at this one
            (``relative.py``).
        numbered: embeddings of sentence numbers are added to queries and keys, each by a map of its
            own that is zero at first. The engines need no change for this.

    Attributes:
        joint: in a copy for decoding, the product that gives q, k and v; None: there is none.
    """

    joint: PackedLinear | None = None

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
        self.heads, self.dim, self.dropout = heads, channels // heads, dropout
        self.reads_itself = memory_channels is None
        memory_channels = memory_channels or channels
        self.k_proj = Linear(memory_channels, channels)
        self.v_proj = Linear(memory_channels, channels)
        self.q_proj = Linear(channels, channels)
        # LST concatenates the results of its scopes.
        self.out_proj = Linear(scopes * channels, channels)
        self.relative = None
        if relative is not None:
            self.relative = nn.Embedding.from_pretrained(
                torch.empty(2 * relative + 1, self.dim), freeze=False
            )
            nn.init.xavier_uniform_(self.relative.weight)
        self.query_numbers = SentenceNumbers(channels, zero=True) if numbered else None
        self.key_numbers = SentenceNumbers(channels, zero=True) if numbered else None
        # Glorot, scaled as if the three input projections were one matrix (as in fairseq's
        # Transformer if sizes are equal).
        gain = 2**-0.5 if memory_channels == channels else 1.0
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor, memory: Tensor, *patterns: Pattern) -> Tensor:
        """Attend: x (Nq, channels), memory (Nk, memory_channels), a pattern for each scope -> (Nq,
        channels).
        """
        q, k, v = patterns[0].project(self, x, memory)
        dropout = self.dropout if self.training else 0.0
        relative = None if self.relative is None else self.relative.weight
        contexts = [pattern.attend(q, k, v, dropout, relative) for pattern in patterns]
        # Without a copy in the usual case.
        return self.out_proj(contexts[0] if len(contexts) == 1 else torch.cat(contexts, dim=-1))

    def join_projections(self, dtype: torch.dtype) -> None:
        """Let one product give q, k and v, in a copy for decoding; layers with hooks or a
        ``forward`` of their own stay.
        """
        layers = self.q_proj, self.k_proj, self.v_proj
        hooked = any(layer._forward_hooks or layer._forward_pre_hooks for layer in layers)
        packed = all(isinstance(layer.forward, PackedLinear) for layer in layers)
        if self.reads_itself and packed and not hooked:
            self.joint = PackedLinear(*layers, dtype=dtype)

    def project(self, x: Tensor, memory: Tensor, tags: np.ndarray, memory_tags: np.ndarray):
        """Return queries (Nq, heads, dim) of x, and keys and values (Nk, heads, dim) of memory."""
        if memory is x and self.joint is not None:
            joined = self.joint(x).chunk(3, dim=1)
        elif memory is x and torch.compiler.is_compiling():
            # In a graph one product of three times the size is faster than three.
            joined = products(x, self.q_proj, self.k_proj, self.v_proj)
        else:
            return self.project_queries(x, tags), *self.keys_and_values(memory, memory_tags)
        q, k, v = (part.unflatten(1, (self.heads, -1)) for part in joined)
        if self.query_numbers is not None:
            q = q + self._embedded(self.query_numbers, tags, q)
            k = k + self._embedded(self.key_numbers, tags, k)
        return q, k, v

    def project_queries(self, x: Tensor, tags: np.ndarray) -> Tensor:
        """Project x (Nq, channels) -> (Nq, heads, dim); ``tags`` (Nq,) int64, the sentence of each
        token.
        """
        q = self.q_proj(x).view(-1, self.heads, self.dim)
        if self.query_numbers is not None:
            q = q + self._embedded(self.query_numbers, tags, q)
        return q

    def keys_and_values(self, memory: Tensor, tags: np.ndarray) -> tuple[Tensor, Tensor]:
        """Project memory (Nk, memory_channels) -> two of (Nk, heads, dim); ``tags`` (Nk,) int64."""
        k, v = products(memory, self.k_proj, self.v_proj)
        k, v = k.view(-1, self.heads, self.dim), v.view(-1, self.heads, self.dim)
        if self.key_numbers is not None:
            k = k + self._embedded(self.key_numbers, tags, k)
        return k, v

    def _embedded(self, numbers: SentenceNumbers, tags: np.ndarray, like: Tensor) -> Tensor:
        """Embed tags (n,) int64 as queries or keys, (n, heads, dim) in the type of ``like``."""
        if isinstance(tags, Tensor):  # of a packed batch, whose shapes must not depend on them
            return numbers(tags, like.dtype).to(like.dtype).view_as(like)
        # Few sentences, many tokens: each number is embedded once.
        distinct, inverse = np.unique(tags, return_inverse=True)
        embedded = numbers(on_device(distinct, like.device), like.dtype).to(like.dtype)
        return embedded.index_select(0, on_device(inverse, like.device)).view_as(like)


def products(x: Tensor, *layers: Linear) -> tuple[Tensor, ...]:
    """Apply linear layers to the same input; in a compiled graph by one product of them all."""
    if not torch.compiler.is_compiling():
        return tuple(layer(x) for layer in layers)
    # Joined in the graph, so that the parameters keep their names in checkpoints.
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers])
    return functional.linear(x, weight, bias).chunk(len(layers), dim=1)


class Gate(nn.Sequential):
    """The gate of Eq. 10: sigmoid([H_L, H_G] W + b), in float32 (float64 stays).

    In bfloat16 the sigmoid of 6.5 is exactly 1: nearly shut gates would have no gradient and stay
    shut. W is initialised as in the release (Glorot and Bengio 2010).

    Args:
        bias: initial value of all of b; the release's is 0.
    """

    def __init__(self, channels: int, bias: float = 0.0):
        super().__init__(Linear(2 * channels, channels))
        nn.init.xavier_uniform_(self[0].weight)
        nn.init.constant_(self[0].bias, bias)

    def forward(self, both: Tensor) -> Tensor:
        """Compute the gate from [H_L, H_G] (..., 2 * channels) -> (..., channels)."""
        logits = self[0](both)
        return torch.sigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))


def mixed(g: Tensor, local: Tensor, global_: Tensor) -> Tensor:
    """Return Eq. 10: H = H_L * g + H_G * (1 - g); all (..., channels), computed in the gate's type,
    returned in ``local``'s.
    """
    return (local * g + global_ * (1 - g)).to(local.dtype)


class ResidualGate(nn.Module):
    """Eq. 22 of Zhang et al. (2018): lambda = sigmoid(W_i H + W_s C), two square matrices without
    bias.
    """

    def __init__(self, channels: int):
        super().__init__()
        # Checkpoints have these names: W_i and W_s.
        self.own_proj = Linear(channels, channels, bias=False)
        self.found_proj = Linear(channels, channels, bias=False)

    def forward(self, states: Tensor, context: Tensor) -> Tensor:
        """Compute lambda (..., channels) from states H and the result C of their attention, (...,
        channels).
        """
        return torch.sigmoid(self.own_proj(states) + self.found_proj(context))
