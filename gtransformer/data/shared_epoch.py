"""The epoch as all processes that load data see it."""

from __future__ import annotations

import torch


class SharedEpoch:
    """A number that data loader workers see change although they hold copies of the dataset that it belongs to.

    fairseq-fixed makes its data loader once, with workers that live as long as the training: what a dataset's
    ``set_epoch`` changes in the main process does not reach them, unless it lies in shared memory. State of a dataset
    that changes from epoch to epoch must be a function of this number. It is set while no batch is under way: fairseq
    tells the epoch before it asks for the first batch of it.
    """

    def __init__(self, epoch: int = 1):
        self._shared = torch.tensor(epoch, dtype=torch.int64).share_memory_()

    @property
    def value(self) -> int:
        """The epoch, counted from 1."""
        return int(self._shared)

    @value.setter
    def value(self, epoch: int) -> None:
        self._shared.fill_(epoch)
