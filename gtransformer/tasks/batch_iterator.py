"""Batches for fairseq's training and generation, as its task would make them, with four things put right.

Its trainer takes ``--max-tokens`` as a limit on instances, too, and leaves longer ones out: here they are batches of
their own, and instances are left out only where a model has no more positions (sinusoidal ones have no end, whatever
its checkpoint says of ``--max-source-positions``). An iterator that serves all epochs cuts the same batches in whatever
epoch it is made, so that a resumed epoch goes on with the instances that are left of it. And no process gets an empty
batch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.tasks import FairseqTask

from gtransformer.data.document_dataset import DocumentPairDataset
from gtransformer.errors import UserError
from gtransformer.tasks.epoch_iterator import DocumentIterator, EpochIterator
from gtransformer.tasks.first_pass import sentences_together

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
        warn_of_long(dataset, max_tokens)
    together = sentences_together(task.cfg)
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


def warn_of_long(dataset: DocumentPairDataset, max_tokens: int) -> None:
    """Say how many instances are longer than a batch should be."""
    tokens = dataset.num_tokens_vec(np.arange(len(dataset)))
    long = int((tokens > max_tokens).sum())
    if long:
        logger.warning(
            "%d instances are longer than --max-tokens %d, up to %d tokens: each is a batch of its own",
            long, max_tokens, tokens.max(),
        )  # fmt: skip


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
    if len(ignored) and ignore_invalid_inputs:
        logger.warning(
            "%d of %d instances are longer than the %s tokens (source, target) that the model takes and are left "
            "out (instance %d is the first): prepare with a smaller --max-instance-tokens to have them, or give "
            "--instances greedy and a smaller --instance-tokens",
            len(ignored), len(indices), max_positions, min(ignored),
        )  # fmt: skip
    elif len(ignored):
        source, target = map(int, dataset.size(ignored[0]))
        raise UserError(
            f"instance {ignored[0]} has ({source}, {target}) tokens (source, target), the model takes "
            f"{max_positions}: prepare with a smaller --max-instance-tokens, give --instances greedy and a smaller "
            "--instance-tokens, or leave such instances out with --skip-invalid-size-inputs-valid-test"
        )
    return kept


def without_long_sentences(
    indices: np.ndarray, limited: Sequence[tuple[FairseqDataset, int]], ignore_invalid_inputs: bool
) -> np.ndarray:
    """The indices of instances without a sentence longer than its side's limit, in tokens; as ``filter_by_size``.

    Only learned positions that begin anew with each sentence have such a limit below that of the instance.
    """
    kept = np.ones(len(indices), dtype=bool)
    for dataset, limit in limited:
        kept &= longest_sentences(dataset)[indices] <= limit
    ignored = indices[~kept]
    if not len(ignored):
        return indices
    most = " and ".join(dict.fromkeys(str(limit) for _, limit in limited))
    advice = "prepare with a smaller --max-sentence-tokens"
    if not ignore_invalid_inputs:
        raise UserError(
            f"instance {min(ignored)} has a sentence of more tokens than the {most} that the model has positions for: "
            f"{advice}, or leave such instances out with --skip-invalid-size-inputs-valid-test"
        )
    logger.warning(
        "%d of %d instances have a sentence of more tokens than the %s that the model has positions for and are left "
        "out (instance %d is the first): %s to have the rest of them",
        len(ignored), len(indices), most, min(ignored), advice,
    )  # fmt: skip
    return indices[kept]


def longest_sentences(dataset: FairseqDataset) -> np.ndarray:
    """(instances,) int64, tokens of the longest sentence of each, of one set or of several together."""
    parts = getattr(dataset, "datasets", [dataset])
    return np.concatenate([part.longest_sentences() for part in parts])
