"""Sentences told apart by their numbers, of which there is no last one."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gtransformer.modules.linear import Linear


class SentenceNumbers(nn.Module):
    """A sinusoidal embedding of a sentence's number through a learned linear map.

    Args:
        channels: of the result.
        zero: the map begins with zeros, so that at first numbers say nothing.
    """

    def __init__(self, channels: int, zero: bool = False):
        super().__init__()
        self.channels = channels
        self.map = Linear(channels, channels)
        if zero:
            nn.init.zeros_(self.map.weight)
            nn.init.zeros_(self.map.bias)

    def forward(self, numbers: Tensor, dtype: torch.dtype) -> Tensor:
        """numbers (n,) int64 from 1 -> (n, channels): sines, then cosines, mapped."""
        half = self.channels // 2
        rates = torch.arange(half, dtype=torch.float, device=numbers.device) * -(math.log(10000) / max(1, half - 1))
        angles = numbers.float().unsqueeze(1) * rates.exp()
        waves = torch.cat([angles.sin(), angles.cos()], dim=1)
        return self.map(nn.functional.pad(waves, (0, self.channels % 2)).to(dtype))
