"""How the results of two attentions, or of a state and an attention, become one. A block may do without.

* Gate: two attentions with parameters of their own, mixed channel by channel (Bao et al. 2021, Eq. 10).
* Side by side: the same queries, keys and values attended within several reaches, the contexts concatenated and put
  through one linear layer, the output projection of ``MultiheadAttention`` with ``scopes`` (LST attention, Zhang et al.
  2020).
* Residual gate: a state and what one attention has found, mixed channel by channel in place of the residual connection
  (Zhang et al. 2018, Eq. 21).
* None: one attention, whose result is taken as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gtransformer.modules.linear import Linear


def make_gate(channels: int, bias: float | None = None) -> nn.Sequential:
    """The gate of Eq. 10: sigmoid([H_L, H_G] W + b), with b all ``bias`` at first (None: drawn at random)."""
    linear = Linear(2 * channels, channels)
    if bias is not None:
        nn.init.constant_(linear.bias, bias)
    return nn.Sequential(linear, nn.Sigmoid())


def gated_sum(gate: nn.Module, local: Tensor, global_: Tensor) -> Tensor:
    """Eq. 10: H = H_L * g + H_G * (1 - g); all (..., channels)."""
    g = gate(torch.cat([local, global_], dim=-1))
    return local * g + global_ * (1 - g)


def side_by_side(contexts: Sequence[Tensor]) -> Tensor:
    """Contexts of several scopes, each (..., channels), as (..., scopes * channels); a single one as it is."""
    return contexts[0] if len(contexts) == 1 else torch.cat(list(contexts), dim=-1)


class ResidualGate(nn.Module):
    """Eq. 22 of Zhang et al. (2018): lambda = sigmoid(W_i H + W_s C), two square matrices without bias."""

    def __init__(self, channels: int):
        super().__init__()
        self.own_proj = Linear(channels, channels, bias=False)
        self.found_proj = Linear(channels, channels, bias=False)

    def forward(self, own: Tensor, found: Tensor) -> Tensor:
        """States H and what attention found for them C, (..., channels) -> lambda, (..., channels)."""
        return torch.sigmoid(self.own_proj(own) + self.found_proj(found))
