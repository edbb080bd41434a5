"""What goes into a decoder's first layer, one token of every row at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from gtransformer.models.common.decoding.forced import Forced
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.models.common.memory import Memory
from gtransformer.modules.kernels import PackedLinear
from gtransformer.modules.ragged import on_device

Pack = Callable[..., PackedLinear]


class InputStep:
    """``DocumentEmbedding.embed_batch`` step by step; a decoder with another one names its own as ``input_step``.

    Args:
        decoder, memory: as of ``CachedState``.
        documents: (groups,) int64, the document of ``memory`` that each group of rows translates.
        beam: rows of a group.
        pack: lays out the weights of linear layers with one input, as PackedLinear.
    """

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, documents: np.ndarray, beam: int, pack: Pack):
        self.decoder = decoder

    def step(self, tokens: Tensor, offsets: np.ndarray, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        """The newest token of every row -> (rows, channels).

        Args:
            tokens: (rows,) int64 on the device; offsets: (rows,) int64, their places in their documents, from 0.
            opens, tags: (groups, beam), as of ``StepState.step``.
        """
        where = on_device(offsets, tokens.device)
        return self.decoder.embed(tokens, where, int(offsets.max(initial=0)) + 1)

    def force(self, forced: Forced) -> Tensor:
        """What all beams begin with -> (N, channels)."""
        return self.decoder.embed(forced.tokens, *self.decoder.places(forced.layout))

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        """New group g goes on with old group ``groups[g]``, its row b with that group's old row ``beams[g, b]``."""

    def replace(self, group: int, document: int) -> None:
        """Let a group begin another document."""

    def finish(self, document: int, tokens: Tensor) -> None:
        """A document is translated: by ``tokens`` (n,) int64 behind the given ``<s>``, without the language symbol."""
