"""Epochs that any number of processes can go on with: fairseq's iterator, and what it forgets when that changes.

It saves how many batches of the epoch each process has read. Of another number of processes each skips as many, so that
sentences are left out or come twice, and as batches are halved and shuffled for a number of processes, these are not
even the same ones. Here the checkpoint says how many processes read how many batches, and what is left of the epoch is
divided anew.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from fairseq.data.iterators import EpochBatchIterator

from gtransformer.data.batching import document_order, make_divisible, mixed, share_documents
from gtransformer.errors import UserError

Batches = list[np.ndarray]
# In a checkpoint: (processes, batches that each has read), in their order; batches of the epoch, undivided.
READ, BATCHES = "read_by_processes", "batches_of_epoch"


class EpochIterator(EpochBatchIterator):
    """Batches by size: all processes take turns.

    ``batch_sampler`` is a list of batches, not divided yet; other arguments are fairseq's.
    """

    def __init__(self, batch_sampler: Batches, num_shards: int = 1, **options):
        self._undivided = batch_sampler
        self._resumed: int | None = None  # an epoch that others have begun: (processes, batches that each has read)
        self._before: list[tuple[int, int]] = []
        super().__init__(batch_sampler=(), num_shards=num_shards, **options)
        self._frozen_batches = tuple(self.divided(batch_sampler, num_shards))

    def divided(self, batches: Batches, processes: int) -> Batches:
        """The same instances in batches of which process i has every ``processes``-th, from the i-th on."""
        return make_divisible(batches, processes)

    def state_dict(self) -> dict:
        """fairseq's, and how many processes have read how many batches of the epoch."""
        state = super().state_dict()
        before = self._before if state["epoch"] == self._resumed else []
        if before or state["iterations_in_epoch"]:
            state[READ] = [*map(list, before), [self.num_shards, state["iterations_in_epoch"]]]
            state[BATCHES] = len(self._undivided)
        return state

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on where this number of processes stopped, or with what others have left of the epoch.

        What is left is counted from 0: fairseq sums batches of ``--update-freq`` to an update from where the count
        stands, and would leave the last one out where others have read no multiple of it. Checkpoints that do not say
        how many processes there were are taken to be of as many. Raises UserError where the epoch had other batches.
        """
        batches = state_dict.get(BATCHES, len(self._undivided))
        if batches != len(self._undivided):
            raise UserError(
                f"the training stopped in the middle of an epoch of {batches} batches, and now there are "
                f"{len(self._undivided)}: it goes on with the same data and batches alone (--max-tokens, --batch-order "
                "and the like); give those of before, or --reset-dataloader to begin with a new epoch"
            )
        before = [(processes, read) for processes, read in state_dict.get(READ, [])]
        own = before.pop()[1] if before and before[-1][0] == self.num_shards else 0
        self._resumed, self._before = state_dict["epoch"], before
        super().load_state_dict({**state_dict, "iterations_in_epoch": own} if before else state_dict)

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> Batches:
        """This process's batches of an epoch, or of what others have left of it; the same whenever it is asked."""
        order = (epoch, fix_batches_to_gpus, shuffle)
        if epoch != self._resumed or not self._before:
            return self.own_batches(*order)
        left = self._undivided
        for processes, read in self._before:
            divided = self.divided(left, processes)
            others = [self._as_one_of(divided, processes, number) for number in range(processes)]
            gone = {id(batch) for other in others for batch in other.own_batches(*order)[:read]}
            left = [batch for batch in divided if len(batch) and id(batch) not in gone]
        rest = self._as_one_of(self.divided(left, self.num_shards), self.num_shards, self.shard_id)
        return rest.own_batches(*order)

    def _as_one_of(self, divided: Batches, processes: int, number: int) -> EpochIterator:
        """The iterator of process ``number`` of so many, over these batches."""
        other = copy(self)
        other._frozen_batches, other.num_shards, other.shard_id = tuple(divided), processes, number
        return other

    def own_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> Batches:
        """This process's batches of a whole epoch, as fairseq orders them."""
        return super().ordered_batches(epoch, fix_batches_to_gpus, shuffle)


class DocumentIterator(EpochIterator):
    """Batches of documents: every process has its own ones, and goes through each in order.

    Shuffled, batches of different documents take turns at random, in every epoch anew. ``grouped_shuffling`` means
    nothing here.
    """

    def divided(self, batches: Batches, processes: int) -> Batches:
        """See ``share_documents``."""
        documents = self.dataset.documents
        first = np.array([batch[0] for batch in batches], dtype=np.int64)
        in_order = [batches[number] for number in document_order(documents[first])]
        return share_documents(in_order, documents[:, 0], processes)

    def own_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> Batches:
        """This process's batches of a whole epoch."""
        own = list(self.frozen_batches[self.shard_id :: self.num_shards])
        if shuffle:
            real = [batch for batch in own if len(batch)]
            order = mixed(self.dataset.documents_of(real), self.seed + epoch)
            own[: len(real)] = [real[number] for number in order]
        if self._supports_prefetch:
            self.dataset.prefetch([number for batch in own for number in batch])
        return own
