"""Batches for fairseq's training and generation, with four corrections to those of fairseq's task.

* fairseq's trainer leaves out instances of more than ``--max-tokens``. Here each of them is a batch.
* Instances are left out only if the model has too few positions. Sinusoidal positions have no limit, whatever the
  checkpoint's ``--max-source-positions``.
* An iterator for all epochs makes the same batches in whatever epoch it is created. So a resumed epoch continues with
  the remaining instances.
* Batches are divided among processes so that none is empty, unless a single instance is left.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask

from gtransformer.data.batching import document_order, make_divisible, mixed, share_documents
from gtransformer.data.document_dataset import DocumentPairDataset
from gtransformer.errors import UserError

logger = logging.getLogger(__name__)


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
    shard_id: int = 0,
    num_workers: int = 0,
    epoch: int = 1,
    data_buffer_size: int = 0,
    disable_iterator_cache: bool = False,
    skip_remainder_batch: bool = False,
    grouped_shuffling: bool = False,
    update_epoch_batch_itr: bool = False,
) -> EpochIterator:
    """Return the iterator over a dataset; arguments as of ``FairseqTask.get_batch_iterator``.

    A dataset has one iterator for all epochs, stored in ``task.dataset_to_epoch_iter``, except with
    ``disable_iterator_cache`` or ``update_epoch_batch_itr``. The order of equally long instances depends on the seed
    and, if each epoch has its own iterator, on the epoch. ``required_batch_size_multiple`` is ignored, as in
    ``DocumentPairDataset.batch_by_size``.
    """
    reused = not disable_iterator_cache and not update_epoch_batch_itr and task.can_reuse_epoch_itr(dataset)
    if reused and dataset in task.dataset_to_epoch_iter:
        return task.dataset_to_epoch_iter[dataset]
    if dataset is task.datasets.get(task.cfg.train_subset) and max_tokens is not None:
        tokens = dataset.num_tokens_vec(np.arange(len(dataset)))
        if long := int((tokens > max_tokens).sum()):
            message = "%d instances are longer than --max-tokens %d, up to %d tokens: each is a batch of its own"
            logger.warning(message, long, max_tokens, tokens.max())
    together = task.options.sentences_together
    if together is not None:
        max_tokens, max_sentences = None, together
    dataset.set_epoch(epoch)
    indices = dataset.ordered_indices(seed + (1 if reused else epoch))
    if max_positions is not None:
        longest = max_positions if task.longest is None else task.longest
        indices = task.filter_indices_by_size(indices, dataset, longest, ignore_invalid_inputs)
        most = task.longest_sentence or longest
        training = task.cfg.train_subset in task.datasets  # translation does not read references
        sides = [dataset.src] if dataset.tgt is None or not training else [dataset.src, dataset.tgt]
        limited = [(side, limit) for side, limit, whole in zip(sides, most, longest, strict=False) if limit < whole]
        indices = without_long_sentences(indices, limited, ignore_invalid_inputs)
    if len(dataset) and not len(indices):
        splits = [f" of split {split!r}" for split, loaded in task.datasets.items() if loaded is dataset]
        raise UserError(
            f"{task.cfg.data}: none of the {len(dataset)} instances{''.join(splits)} fits the model, all are too long; "
            "prepare shorter ones (--max-instance-tokens), or give the model more positions (--max-source-positions, "
            "--max-target-positions)"
        )
    if task.cfg.gen_output is not None:
        check_complete(task.cfg.gen_output, len(dataset), len(indices), num_shards)
    batches = dataset.batch_by_size(indices, max_tokens, max_sentences, required_batch_size_multiple)
    made = (EpochIterator if dataset.documents is None else DocumentIterator)(
        dataset=dataset,
        collate_fn=dataset.collater,
        batch_sampler=batches,
        seed=seed,
        num_shards=num_shards,
        shard_id=shard_id,
        num_workers=num_workers,
        epoch=epoch,
        buffer_size=data_buffer_size,
        skip_remainder_batch=skip_remainder_batch,
        grouped_shuffling=grouped_shuffling,
        # Workers of an iterator for one epoch would stay, with its data, until Python collects cycles.
        reuse_dataloader=reused,
        persistent_workers=reused,
    )
    if reused:
        task.dataset_to_epoch_iter[dataset] = made
    return made


def check_complete(prefix: str, instances: int, translated: int, processes: int) -> None:
    """Raise UserError if a file of translations would be incomplete; an earlier file is kept.

    Args:
        prefix: of the file.
        instances, translated: number of all instances and of those that are short enough to be translated.
    """
    if translated < instances:
        raise UserError(
            f"--gen-output {prefix}: {instances - translated} of {instances} instances are longer than the model takes "
            "and would be missing; prepare with a smaller --max-instance-tokens, give --instances greedy and a smaller "
            "--instance-tokens, or leave --gen-output out"
        )
    if processes > 1:
        raise UserError(
            f"--gen-output {prefix}: each of {processes} processes translates a part of the instances, the file has "
            "all; leave --distributed-world-size out, or --gen-output"
        )


def filter_by_size(
    indices: np.ndarray,
    dataset: DocumentPairDataset,
    max_positions: tuple[int, int] | None,
    ignore_invalid_inputs: bool,
) -> np.ndarray:
    """Return the indices of instances of at most ``max_positions`` tokens (source, target).

    Raises UserError if there are longer ones and ``ignore_invalid_inputs`` is false; else a warning counts them.
    """
    kept, ignored = dataset.filter_indices_by_size(indices, max_positions)
    if len(ignored):
        source, target = map(int, dataset.size(ignored[0]))
        leave_out(
            f"instance {ignored[0]} has ({source}, {target}) tokens (source, target): {len(ignored)} of {len(indices)} "
            f"instances are longer than the model's limit of {max_positions}",
            "prepare with a smaller --max-instance-tokens, or give --instances greedy and a smaller --instance-tokens",
            ignore_invalid_inputs,
        )
    return kept


def leave_out(problem: str, advice: str, allowed: bool) -> None:
    """Warn of instances that are left out if that is allowed; else raise UserError."""
    if not allowed:
        raise UserError(f"{problem}; {advice}, or leave such instances out with --skip-invalid-size-inputs-valid-test")
    logger.warning("%s; they are left out; to use them, %s", problem, advice)


def without_long_sentences(
    indices: np.ndarray, limited: Sequence[tuple[FairseqDataset, int]], ignore_invalid_inputs: bool
) -> np.ndarray:
    """Return the indices of instances without a sentence longer than its side's limit in tokens.

    Only learned positions that restart at each sentence have a limit for sentences that is below that for instances.
    Raises UserError as ``filter_by_size``.
    """
    kept = np.ones(len(indices), dtype=bool)
    for dataset, limit in limited:
        parts = getattr(dataset, "datasets", [dataset])  # one set, or several together
        kept &= np.concatenate([part.longest_sentences() for part in parts])[indices] <= limit
    ignored = indices[~kept]
    if not len(ignored):
        return indices
    most = " and ".join(dict.fromkeys(str(limit) for _, limit in limited))
    leave_out(
        f"{len(ignored)} of {len(indices)} instances have a sentence of more tokens than the model's {most} positions, "
        f"instance {min(ignored)} is the first",
        "prepare with a smaller --max-sentence-tokens",
        ignore_invalid_inputs,
    )
    return indices[kept]


Batches = list[np.ndarray]
# Keys in a checkpoint. READ: (processes, batches that each has read), in order. BATCHES: number of the epoch's batches.
# SEED: that of their order.
READ, BATCHES, SEED = "read_by_processes", "batches_of_epoch", "seed_of_epoch"


class EpochIterator(EpochBatchIterator):
    """Batches by size, distributed to processes in turn.

    ``batch_sampler`` is the list of all batches; other arguments are fairseq's.
    """

    def __init__(self, batch_sampler: Batches, num_shards: int = 1, **options):
        self._undivided = batch_sampler
        self._resumed: int | None = None  # an epoch that another number of processes has started
        self._before: list[tuple[int, int]] = []  # (processes, batches that each has read)
        super().__init__(batch_sampler=(), num_shards=num_shards, **options)
        self._frozen_batches = tuple(self.divided(batch_sampler, num_shards))

    def divided(self, batches: Batches, processes: int) -> Batches:
        """Divide batches so that process i can take every ``processes``-th batch, starting from the i-th."""
        return make_divisible(batches, processes)

    def state_dict(self) -> dict:
        """Return fairseq's state, and how many processes have read how many batches of the epoch."""
        state = super().state_dict()
        before = self._before if state["epoch"] == self._resumed else []
        if before or state["iterations_in_epoch"]:
            state[READ] = [*map(list, before), [self.num_shards, state["iterations_in_epoch"]]]
            state[BATCHES], state[SEED] = len(self._undivided), self.seed
        return state

    def load_state_dict(self, state_dict: dict) -> None:
        """Resume where this number of processes stopped, or with the batches that another number has left.

        The remaining batches are counted from 0. Checkpoints without the number of processes are taken to be of this
        number. Raises UserError if the epoch had other batches, or another order.
        """
        seed = state_dict.get(SEED, self.seed)
        if seed != self.seed:
            raise UserError(
                f"--seed {self.seed}: the training stopped in the middle of an epoch whose batches are in the order of "
                f"--seed {seed}; give that, or --reset-dataloader, which counts epochs from 1 again"
            )
        batches = state_dict.get(BATCHES, len(self._undivided))
        if batches != len(self._undivided):
            raise UserError(
                f"the training stopped in the middle of an epoch of {batches} batches, and now there are "
                f"{len(self._undivided)}: it resumes only with the same data and batches (--max-tokens, --batch-order "
                "and the like); give the earlier options, or --reset-dataloader, which counts epochs from 1 again"
            )
        before = [(processes, read) for processes, read in state_dict.get(READ, [])]
        own = before.pop()[1] if before and before[-1][0] == self.num_shards else 0
        self._resumed, self._before = state_dict["epoch"], before
        super().load_state_dict({**state_dict, "iterations_in_epoch": own} if before else state_dict)

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> Batches:
        """Return this process's batches of an epoch, or of its remaining part; the same at every call."""
        order = (epoch, fix_batches_to_gpus, shuffle)
        if epoch != self._resumed or not self._before:
            return self.own_batches(*order)
        left = self._undivided
        for processes, read in self._before:
            divided = self.divided(left, processes)
            others = [self._as_one_of(divided, processes, number) for number in range(processes)]
            used = {id(batch) for other in others for batch in other.own_batches(*order)[:read]}
            left = [batch for batch in divided if len(batch) and id(batch) not in used]
        rest = self._as_one_of(self.divided(left, self.num_shards), self.num_shards, self.shard_id)
        return rest.own_batches(*order)

    def _as_one_of(self, divided: Batches, processes: int, number: int) -> EpochIterator:
        """Return the iterator of process ``number`` of ``processes`` over these batches."""
        other = copy(self)
        other._frozen_batches, other.num_shards, other.shard_id = tuple(divided), processes, number
        return other

    def own_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> Batches:
        """Return this process's batches of a whole epoch, in fairseq's order."""
        return super().ordered_batches(epoch, fix_batches_to_gpus, shuffle)


class DocumentIterator(EpochIterator):
    """Batches of documents: every process has its own documents and reads each in order.

    Shuffling mixes batches of different documents at random, in every epoch. ``grouped_shuffling`` is ignored.
    """

    def divided(self, batches: Batches, processes: int) -> Batches:
        """Divide batches by documents; see ``share_documents``."""
        documents = self.dataset.documents
        first = np.array([batch[0] for batch in batches], dtype=np.int64)
        in_order = [batches[number] for number in document_order(documents[first])]
        return share_documents(in_order, documents[:, 0], processes)

    def own_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> Batches:
        """Return this process's batches of a whole epoch."""
        own = list(self.frozen_batches[self.shard_id :: self.num_shards])
        if shuffle:
            real = [batch for batch in own if len(batch)]
            documents = self.dataset.documents[[int(batch[0]) for batch in real], 0]
            own[: len(real)] = [real[number] for number in mixed(documents, self.seed + epoch)]
        return own
