"""Sinusoidal positions of any length (Vaswani et al. 2017, section 3.5), learned positions,
sentence numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from gtransformer.errors import UserError
from gtransformer.modules.kernels import Linear

FAIRSEQ, MARIAN, HUGGING_FACE = SINUSOIDS = ("fairseq", "marian", "huggingface")


def waves(numbers: Tensor, channels: int) -> Tensor:
    """Return sines, then cosines of numbers (n,), (n, channels) float32, computed as in fairseq."""
    half = channels // 2
    # By half - 1, not half as in the paper: the longest wavelength is exactly 10,000 * 2 pi.
    step = math.log(10000) / max(1, half - 1)
    rates = torch.arange(half, dtype=torch.float, device=numbers.device) * -step
    angles = numbers.float().unsqueeze(1) * rates.exp()
    return functional.pad(torch.cat([angles.sin(), angles.cos()], dim=1), (0, channels % 2))


class SinusoidalPositions(nn.Module):
    """Position vectors by formula; the table grows with the longest document seen.

    Args:
        channels: model dimension.
        padding: index of padding; real tokens count from ``padding + 1`` in fairseq.
        kind: one of ``SINUSOIDS``. Marian counts from 0; so do its models in Hugging Face's form,
            whose wavelengths differ slightly.
    """

    def __init__(self, channels: int, padding: int, kind: str = FAIRSEQ):
        super().__init__()
        self.channels, self.kind = channels, kind
        self.first = padding + 1 if kind == FAIRSEQ else 0
        # In the release's checkpoints; carries no information.
        self.register_buffer("_float_tensor", torch.zeros(1))
        self.register_buffer("weights", torch.empty(0, channels), persistent=False)

    def forward(self, offset: Tensor, longest: int) -> Tensor:
        """Embed offset (...) int64, position from 0, all below ``longest`` -> (..., channels)."""
        self.grow(longest)
        return self.weights[offset + self.first]

    def grow(self, longest: int) -> None:
        """Let the table have positions below ``longest``."""
        needed = longest + self.first
        if len(self.weights) < needed:
            # Powers of two, so that a slowly growing document does not compute a new table at every
            # step.
            size = max(1024, 1 << (needed - 1).bit_length())
            self.weights = self._table(size).to(self._float_tensor)

    def _table(self, size: int) -> Tensor:
        """(size, channels): sines, then cosines."""
        if self.kind == FAIRSEQ:
            table = waves(torch.arange(size), self.channels)
            table[self.first - 1] = 0.0  # padding
            return table
        half = self.channels // 2
        divisor = half if self.kind == HUGGING_FACE else max(1, half - 1)
        steps = torch.arange(half, dtype=torch.float64) / divisor
        angles = torch.arange(size, dtype=torch.float64)[:, None] * 10_000.0**-steps
        return torch.cat([angles.sin(), angles.cos()], dim=1)


class LearnedPositions(nn.Embedding):
    """Learned position vectors, numbered as in fairseq (from ``padding + 1``)."""

    def __init__(self, positions: int, channels: int, padding: int):
        super().__init__(positions + padding + 1, channels, padding)
        self.positions = positions
        nn.init.normal_(self.weight, std=channels**-0.5)
        nn.init.zeros_(self.weight[padding])

    def forward(self, offset: Tensor, longest: int) -> Tensor:
        """Embed as SinusoidalPositions does."""
        self.grow(longest)
        return super().forward(offset + self.padding_idx + 1)

    def grow(self, longest: int) -> None:
        """Raise UserError for a text longer than the table, which cannot grow."""
        if longest > self.positions:
            raise UserError(
                f"a text of {longest} tokens does not fit the {self.positions} learned positions "
                "of this model; give shorter documents (less context, a smaller "
                "--max-instance-tokens), or, if positions restart at each sentence, shorter "
                "sentences (a smaller --max-sentence-tokens)"
            )


class SentenceNumbers(nn.Module):
    """A sinusoidal embedding of a sentence's number, which has no upper limit, through a learned
    linear map.

    Args:
        channels: of the result.
        zero: initialise the map with zeros, so that numbers have no effect at first.
    """

    def __init__(self, channels: int, zero: bool = False):
        super().__init__()
        self.channels = channels
        self.map = Linear(channels, channels)
        if zero:
            nn.init.zeros_(self.map.weight)
            nn.init.zeros_(self.map.bias)

    def forward(self, numbers: Tensor, dtype: torch.dtype) -> Tensor:
        """Embed numbers (n,) int64 from 1 -> (n, channels): sines, then cosines, mapped."""
        return self.map(waves(numbers, self.channels).to(dtype))
