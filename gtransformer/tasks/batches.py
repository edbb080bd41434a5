"""Batches for fairseq's training and generation, as its task would make them, with four things put right.

Its trainer takes ``--max-tokens`` as a limit on instances, too, and leaves longer ones out: here they are batches of
their own, and instances are left out only where a model has no more positions (sinusoidal ones have no end, whatever
its checkpoint says of ``--max-source-positions``). An iterator that serves all epochs cuts the same batches in whatever
epoch it is made, so that a resumed epoch continues with the instances that are left of it. And no process gets an empty
batch.
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
    """The iterator over a dataset; arguments as of ``FairseqTask.get_batch_iterator``.

    Unless ``disable_iterator_cache`` or ``update_epoch_batch_itr`` says otherwise, a dataset has one for all epochs,
    kept in ``task.dataset_to_epoch_iter``. The order of equally long instances is drawn from the seed and, where each
    epoch has an iterator of its own, from the epoch. ``required_batch_size_multiple`` is ignored, as in
    ``DocumentPairDataset.batch_by_size``.
    """
    reused = not disable_iterator_cache and not update_epoch_batch_itr and task.can_reuse_epoch_itr(dataset)
    if reused and dataset in task.dataset_to_epoch_iter:
        return task.dataset_to_epoch_iter[dataset]
    if dataset is task.datasets.get(task.cfg.train_subset) and max_tokens is not None:
        tokens = dataset.num_tokens_vec(np.arange(len(dataset)))
        if long := int((tokens > max_tokens).sum()):
            said = "%d instances are longer than --max-tokens %d, up to %d tokens: each is a batch of its own"
            logger.warning(said, long, max_tokens, tokens.max())
    together = task.options.sentences_together
    if together is not None:
        max_tokens, max_sentences = None, together
    dataset.set_epoch(epoch)
    indices = dataset.ordered_indices(seed + (1 if reused else epoch))
    if max_positions is not None:
        longest = max_positions if task.longest is None else task.longest
        indices = task.filter_indices_by_size(indices, dataset, longest, ignore_invalid_inputs)
        most = task.longest_sentence or longest
        training = task.cfg.train_subset in task.datasets  # in translation no reference is too long
        sides = [dataset.src] if dataset.tgt is None or not training else [dataset.src, dataset.tgt]
        limited = [(side, limit) for side, limit, whole in zip(sides, most, longest, strict=False) if limit < whole]
        indices = without_long_sentences(indices, limited, ignore_invalid_inputs)
    if len(dataset) and not len(indices):
        splits = [f" of split {split!r}" for split, loaded in task.datasets.items() if loaded is dataset]
        raise UserError(
            f"{task.cfg.data}: none of the {len(dataset)} instances{''.join(splits)} fits the model, "
            "all are longer than it takes; prepare shorter ones "
            "(--max-instance-tokens), or give it more positions (--max-source-positions, --max-target-positions)"
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
        reuse_dataloader=True,
        persistent_workers=True,
    )
    if reused:
        task.dataset_to_epoch_iter[dataset] = made
    return made


def check_complete(prefix: str, instances: int, translated: int, processes: int) -> None:
    """Raise UserError where a file of translations would lack some: what was there before stays.

    Args:
        prefix: of the file.
        instances, translated: how many there are, and how many are short enough to be translated.
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
    """The indices of instances of at most ``max_positions`` tokens (source, target).

    Raises UserError where there are longer ones and they may not be left out; else a warning counts them.
    """
    kept, ignored = dataset.filter_indices_by_size(indices, max_positions)
    if len(ignored):
        source, target = map(int, dataset.size(ignored[0]))
        leave_out(
            f"instance {ignored[0]} has ({source}, {target}) tokens (source, target): {len(ignored)} of {len(indices)} "
            f"instances are longer than the {max_positions} that the model takes",
            "prepare with a smaller --max-instance-tokens, or give --instances greedy and a smaller --instance-tokens",
            ignore_invalid_inputs,
        )
    return kept


def leave_out(said: str, advice: str, allowed: bool) -> None:
    """Warn of instances that are left out, where that is allowed; else raise UserError."""
    if not allowed:
        raise UserError(f"{said}; {advice}, or leave such instances out with --skip-invalid-size-inputs-valid-test")
    logger.warning("%s; they are left out; to have them, %s", said, advice)


def without_long_sentences(
    indices: np.ndarray, limited: Sequence[tuple[FairseqDataset, int]], ignore_invalid_inputs: bool
) -> np.ndarray:
    """The indices of instances without a sentence longer than its side's limit, in tokens; as ``filter_by_size``.

    Only learned positions that restart at each sentence have such a limit below that of the instance.
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
        f"{len(ignored)} of {len(indices)} instances have a sentence of more tokens than the {most} that the model has "
        f"positions for, instance {min(ignored)} is the first",
        "prepare with a smaller --max-sentence-tokens",
        ignore_invalid_inputs,
    )
    return indices[kept]


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
                f"{len(self._undivided)}: it resumes with the same data and batches alone (--max-tokens, --batch-order "
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

    Shuffled, batches of different documents take turns at random, in every epoch. ``grouped_shuffling`` means
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
            documents = self.dataset.documents[[int(batch[0]) for batch in real], 0]
            own[: len(real)] = [real[number] for number in mixed(documents, self.seed + epoch)]
        return own
