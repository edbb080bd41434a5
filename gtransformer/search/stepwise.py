"""What a model must offer so that our beam search can run it: decoding token by token, from a memory it shares.

A decoder that has ``begin`` says that it does, and that its model's encoder gives a ``memory`` beside fairseq's output.
Models without it, fairseq's own among them, are searched by fairseq's loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from torch import Tensor, nn


class StepState(Protocol):
    """Everything that decoding remembers of its rows; those of a document stand together, ``beam`` of them."""

    def force(self, prefixes: Sequence[Tensor]) -> None:
        """In front of the first step: the rows of each document begin with (length,) int64 tokens, whole sentences."""
        ...

    def step(self, tokens: Tensor, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        """Take in a new last token of every row.

        Args:
            tokens: (rows,) int64 on the device.
            opens: (documents, beam) bool, True at ``<s>``; tags: (documents, beam) int64, the number of its sentence.

        Returns:
            features of the new tokens, (rows, channels).
        """
        ...

    def logits(self, features: Tensor) -> Tensor:
        """(n, channels) -> (n, vocabulary)."""
        ...

    def reorder(self, order: Tensor) -> None:
        """Row i goes on with what row ``order[i]`` was; documents may leave, rows of one may change places."""
        ...

    def replace(self, group: int, document: int) -> None:
        """Let the rows of the ``group``-th document begin another ``document`` of the memory."""
        ...

    def finish(self, document: int, tokens: Tensor) -> None:
        """A ``document`` of the memory is translated: by ``tokens`` (n,) int64, without the language symbol.

        Told in front of the ``reorder`` by which its rows leave; others may go on reading it.
        """
        ...


class StepDecoder(Protocol):
    """A decoder that decodes token by token; ``memory.reorder(rows)`` says which document each row translates."""

    def begin(self, memory, rows: int) -> StepState:
        """The state of ``rows`` rows in front of their first token."""
        ...

    def hold_weights(self) -> None:
        """Do once what else is done with the weights at every ``begin``: they will not change any more."""
        ...


def decodes_stepwise(model: nn.Module) -> bool:
    """Whether the model's decoder is a ``StepDecoder``."""
    return callable(getattr(getattr(model, "decoder", None), "begin", None))
