"""Sinusoidal positions that extend to any length (Vaswani et al. 2017, section 3.5)."""

from __future__ import annotations

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from gtransformer.errors import UserError


class SinusoidalPositions(nn.Module):
    """Position vectors by formula; the table grows with the longest document seen.

    Args:
        channels: model dimension.
        padding: index of padding; real tokens count from ``padding + 1``, as in fairseq.
    """

    def __init__(self, channels: int, padding: int):
        super().__init__()
        self.channels, self.padding = channels, padding
        # Present in the release's checkpoints; carries no information.
        self.register_buffer("_float_tensor", torch.zeros(1))
        self.register_buffer("weights", torch.empty(0, channels), persistent=False)

    def forward(self, offset: Tensor, longest: int) -> Tensor:
        """offset (...) int64, position from 0, all below ``longest`` -> (..., channels)."""
        needed = longest + self.padding + 1
        if self.weights.shape[0] < needed:
            size = max(1024, 1 << (needed - 1).bit_length())
            table = SinusoidalPositionalEmbedding.get_embedding(size, self.channels, self.padding)
            self.weights = table.to(device=self._float_tensor.device, dtype=self._float_tensor.dtype)
        return self.weights[offset + self.padding + 1]


class LearnedPositions(nn.Embedding):
    """Learned position vectors, numbered as in fairseq (from ``padding + 1``)."""

    def __init__(self, positions: int, channels: int, padding: int):
        super().__init__(positions + padding + 1, channels, padding)
        nn.init.normal_(self.weight, std=channels**-0.5)
        nn.init.zeros_(self.weight[padding])

    @property
    def positions(self) -> int:
        """How many there are."""
        return self.num_embeddings - self.padding_idx - 1

    def forward(self, offset: Tensor, longest: int) -> Tensor:
        """As SinusoidalPositions; raises UserError for a document longer than the table."""
        if longest > self.positions:
            raise UserError(
                f"a text of {longest} tokens does not fit the {self.positions} learned positions of this model; give "
                "shorter documents (less context, a smaller --max-instance-tokens), or, where positions begin anew "
                "with each sentence, shorter sentences (--max-pair-tokens, a smaller --max-sentence-tokens)"
            )
        return super().forward(offset + self.padding_idx + 1)
