"""Batches in the order of the documents (``--batch-order document``)."""

from __future__ import annotations

import numpy as np
from fairseq.data.iterators import EpochBatchIterator, ShardedIterator

from gtransformer.data.batching import mixed


class DocumentIterator(EpochBatchIterator):
    """Batches of consecutive sentences, in the order of the documents.

    Shuffling mixes batches of different documents at random, in every epoch; each document stays in
    order. ``grouped_shuffling`` is ignored.
    """

    def ordered_batches(
        self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool
    ) -> list[np.ndarray]:
        """Return this process's batches of an epoch."""
        batches = list(self.frozen_batches)
        if shuffle:
            documents = self.dataset.documents[[int(batch[0]) for batch in batches], 0]
            batches = [batches[number] for number in mixed(documents, self.seed + epoch)]
        return list(ShardedIterator(batches, self.num_shards, self.shard_id, fill_value=[]))
