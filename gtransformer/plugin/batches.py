"""Batches for fairseq's training and generation, with three corrections to those of fairseq's task.

* fairseq's trainer leaves out instances of more than ``--max-tokens``. Here each of them is a
  batch.
* Instances are left out only if the model has too few positions. Sinusoidal positions have no
  limit, whatever the checkpoint's ``--max-source-positions``.
* An iterator for all epochs makes the same batches in whatever epoch it is created. So a resumed
  epoch continues with the remaining instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask

from gtransformer.data.batching import document_order, mixed, share_documents
from gtransformer.errors import UserError
from gtransformer.plugin.document_dataset import DocumentPairDataset


def batch_iterator(
    task: FairseqTask,
    dataset: DocumentPairDataset,
    max_tokens: int | None = None,
    max_sentences: int | None = None,
    max_positions: tuple[int, int] | None = None,
    ignore_invalid_inputs: bool = False,
    required_batch_size_multiple: int = 1,
    seed: int = 1,
    num_shards: int = 1,
    epoch: int = 1,
    data_buffer_size: int = 0,
    disable_iterator_cache: bool = False,
    update_epoch_batch_itr: bool = False,
    **options: Any,
) -> EpochBatchIterator:
    """Return the iterator over a dataset; arguments as of ``FairseqTask.get_batch_iterator``.

    A dataset has one iterator for all epochs, stored in ``task.dataset_to_epoch_iter``, except with
    ``disable_iterator_cache`` or ``update_epoch_batch_itr``. The order of equally long instances
    depends on the seed and, if each epoch has its own iterator, on the epoch.
    ``required_batch_size_multiple`` is ignored, as in ``DocumentPairDataset.batch_by_size``.
    """
    reused = (
        not disable_iterator_cache
        and not update_epoch_batch_itr
        and task.can_reuse_epoch_itr(dataset)
    )
    if reused and dataset in task.dataset_to_epoch_iter:
        return task.dataset_to_epoch_iter[dataset]
    dataset.set_epoch(epoch)
    indices = dataset.ordered_indices(seed + (1 if reused else epoch))
    if max_positions is not None:
        indices = task.filter_indices_by_size(
            indices, dataset, task.longest or max_positions, ignore_invalid_inputs
        )
    if len(dataset) and not len(indices):
        raise UserError(
            f"{task.cfg.data}: all {len(dataset)} instances have more tokens than the model has "
            "positions; prepare "
            "shorter ones"
        )
    together = task.options.sentences_together
    limits = (max_tokens, max_sentences) if together is None else (None, together)
    batches = dataset.batch_by_size(indices, *limits)
    if task.compiling and dataset is task.datasets.get(task.cfg.train_subset):
        dataset.packer = task.compiling.packer(dataset, batches, max_tokens)
    iterator = EpochBatchIterator
    if dataset.documents is not None:
        iterator, batches = DocumentIterator, shared_by_document(batches, dataset, num_shards)
    made = iterator(
        dataset=dataset,
        collate_fn=dataset.collater,
        batch_sampler=batches,
        seed=seed,
        num_shards=num_shards,
        epoch=epoch,
        buffer_size=data_buffer_size,
        # Workers of an iterator for one epoch would stay, with its data, until Python collects
        # cycles.
        reuse_dataloader=reused,
        persistent_workers=reused,
        **options,
    )
    if reused:
        task.dataset_to_epoch_iter[dataset] = made
    return made


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


def shared_by_document(
    batches: Sequence[np.ndarray], dataset: DocumentPairDataset, processes: int
) -> list[np.ndarray]:
    """Return batches in the order of the documents, divided by ``share_documents``."""
    first = np.array([batch[0] for batch in batches], dtype=np.int64)
    in_order = [batches[number] for number in document_order(dataset.documents[first])]
    return share_documents(in_order, dataset.documents[:, 0], processes)
