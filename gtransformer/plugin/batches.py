"""Batches in the order of the documents (``--batch-order document``)."""

from __future__ import annotations

import numpy as np
from fairseq.data.iterators import EpochBatchIterator

from gtransformer.data.batching import document_order, mixed, share_documents


class DocumentIterator(EpochBatchIterator):
    """Batches of documents: every process has its own documents and reads each in order.

    Shuffling mixes batches of different documents at random, in every epoch. ``grouped_shuffling``
    is ignored.
    """

    def ordered_batches(
        self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool
    ) -> list[np.ndarray]:
        """Return this process's batches of an epoch."""
        own = list(self.frozen_batches[self.shard_id :: self.num_shards])
        if shuffle:
            real = [batch for batch in own if len(batch)]
            documents = self.dataset.documents[[int(batch[0]) for batch in real], 0]
            own[: len(real)] = [real[number] for number in mixed(documents, self.seed + epoch)]
        return own


def share_by_document(iterator: EpochBatchIterator) -> None:
    """Make fairseq's iterator a DocumentIterator, its batches divided by ``share_documents``.

    fairseq has no place where a task could choose the class of its iterators.
    """
    batches, documents = iterator.frozen_batches, iterator.dataset.documents
    first = np.array([batch[0] for batch in batches], dtype=np.int64)
    in_order = [batches[number] for number in document_order(documents[first])]
    shared = share_documents(in_order, documents[:, 0], iterator.num_shards)
    iterator._frozen_batches = tuple(shared)
    iterator.__class__ = DocumentIterator
