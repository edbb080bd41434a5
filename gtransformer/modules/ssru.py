"""The simpler simple recurrent unit (SSRU; Kim et al. 2019, "From Research to Production and
Back").

Marian's small models have it in the decoder in place of self-attention.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gtransformer.modules.kernels import Linear


class Ssru(nn.Module):
    """f_t = sigmoid(W_f x_t + b_f), c_t = f_t * c_{t-1} + (1 - f_t) * W x_t, h_t = relu(c_t); c_0
    is zero.

    Args:
        channels: model dimension, of the state, too.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.forget_proj = Linear(channels, channels)
        self.input_proj = Linear(channels, channels, bias=False)
        for projection in (self.forget_proj, self.input_proj):
            nn.init.xavier_uniform_(projection.weight)
        nn.init.zeros_(self.forget_proj.bias)

    def forward(self, x: Tensor, recurrence: Recurrence) -> Tensor:
        """Return the outputs h (N, channels) of tokens x (N, channels).

        ``recurrence`` has a method ``states(module, f, new)`` that returns the states c of f and (1
        - f) * W x, all (N, channels) and at least in float32.
        """
        forget, candidate = self.forget_proj(x), self.input_proj(x)
        # A product of many gates loses its digits in half precision.
        exact = torch.promote_types(forget.dtype, torch.float32)
        forget = torch.sigmoid(forget.to(exact))
        states = recurrence.states(self, forget, (1 - forget) * candidate.to(exact))
        return torch.relu(states).to(x.dtype)


class Recurrence:
    """Where states begin, in one pass over whole documents.

    Args:
        first: (N,) bool, the tokens before which the state is zero.
        longest: most tokens from one of these to the next.

    Attributes:
        stored: where states are stored by module, for decoding; None: nowhere.
    """

    stored: dict[Ssru, Tensor] | None = None

    def __init__(self, first: Tensor, longest: int):
        self.first, self.longest = first, longest

    def states(self, module: Ssru, forget: Tensor, new: Tensor) -> Tensor:
        """Return c = f * c + new of all tokens, (N, channels)."""
        states = linear_recurrence(
            # A gate of zero forgets what came before: the state starts anew, and the recurrence
            # over the whole batch is one.
            forget.masked_fill(self.first.unsqueeze(1), 0.0),
            new,
            self.longest,
        )
        if self.stored is not None:
            self.stored[module] = states
        return states


def linear_recurrence(a: Tensor, b: Tensor, longest: int) -> Tensor:
    """Return y (n, channels), y_t = a_t * y_{t-1} + b_t, of a and b (n, channels).

    ``longest``: most rows from one where ``a`` is zero to the next. The number of passes over the
    tensors is its
    logarithm: in each, every row joins the run of rows that ends at it with the run before.
    """
    # A parallel scan: after k passes row t has the recurrence over its last 2^k rows. A loop over
    # tokens would start a kernel for each.
    step = 1
    while step < min(longest, len(b)):
        b = b + a * functional.pad(b[:-step], (0, 0, step, 0))
        a = a * functional.pad(a[:-step], (0, 0, step, 0))
        step *= 2
    return b
