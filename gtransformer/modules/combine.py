"""How the results of two attentions, or of a state and an attention, become one. A block may do without.

* Gate: two attentions with parameters of their own, mixed channel by channel (Bao et al. 2021, Eq. 10).
* Side by side: several scopes of one attention (``MultiheadAttention``).
* Residual gate: a state and what one attention has found, mixed channel by channel in place of the residual connection
  (Zhang et al. 2018, Eq. 21).
* None: one attention, whose result is taken as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gtransformer.modules.kernels import Linear


class Gate(nn.Sequential):
    """The gate of Eq. 10: sigmoid([H_L, H_G] W + b), in float32 (float64 stays).

    In bfloat16 the sigmoid of 6.5 is exactly 1: gates that begin nearly shut would have no gradient, and stay shut.
    W begins as in the release, by Glorot and Bengio (2010).

    Args:
        bias: what all of b is at first; the release's is 0.
    """

    def __init__(self, channels: int, bias: float = 0.0):
        super().__init__(Linear(2 * channels, channels))
        nn.init.xavier_uniform_(self[0].weight)
        nn.init.constant_(self[0].bias, bias)

    def forward(self, both: Tensor) -> Tensor:
        """[H_L, H_G] (..., 2 * channels) -> (..., channels)."""
        return opened(self[0](both))


def opened(logits: Tensor) -> Tensor:
    """The sigmoid of what a gate's linear layer gives, in float32 (float64 stays)."""
    return torch.sigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))


def stays_shut(bias: float) -> bool:
    """Whether a gate of this bias lets nothing of global attention through, and so has no gradient either."""
    return opened(torch.tensor(bias, dtype=torch.float32)).item() == 1.0


def gated_sum(gate: Gate, local: Tensor, global_: Tensor) -> Tensor:
    """Eq. 10: H = H_L * g + H_G * (1 - g); all (..., channels)."""
    return mixed(gate(torch.cat([local, global_], dim=-1)), local, global_)


def mixed(g: Tensor, local: Tensor, global_: Tensor) -> Tensor:
    """The same for the values of a gate, computed in their type; the result is of ``local``'s."""
    return (local * g + global_ * (1 - g)).to(local.dtype)


class ResidualGate(nn.Module):
    """Eq. 22 of Zhang et al. (2018): lambda = sigmoid(W_i H + W_s C), two square matrices without bias."""

    def __init__(self, channels: int):
        super().__init__()
        self.own_proj = Linear(channels, channels, bias=False)
        self.found_proj = Linear(channels, channels, bias=False)

    def forward(self, own: Tensor, found: Tensor) -> Tensor:
        """States H and what attention found for them C, (..., channels) -> lambda, (..., channels)."""
        return torch.sigmoid(self.own_proj(own) + self.found_proj(found))
