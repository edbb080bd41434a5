"""How much a forward pass keeps for the backward one: the activations, counted exactly and on any device."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class Kept(torch.autograd.graph.saved_tensors_hooks):
    """Within ``with Kept() as kept:``, notes what autograd saves; ``kept.bytes`` are those of its storages, each once.

    What is computed anew in the backward pass, and what that pass needs besides, is not in it.

    Args:
        besides: what does not count, for instance parameters, which are there anyway.
    """

    def __init__(self, besides: Iterable[Tensor] = ()):
        self._besides = {tensor.untyped_storage().data_ptr() for tensor in besides}
        self._sizes: dict[int, int] = {}
        super().__init__(self._note, lambda tensor: tensor)

    def __enter__(self) -> Kept:
        super().__enter__()
        return self

    @property
    def bytes(self) -> int:
        """So far."""
        return sum(self._sizes.values())

    def _note(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._besides:
            self._sizes[storage.data_ptr()] = storage.nbytes()
        return tensor
