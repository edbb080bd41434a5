"""Pairs of documents as fairseq reads them."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, Dictionary, LanguagePairDataset, MMapIndexedDataset, data_utils
from torch import Tensor

from gtransformer.data.shared_epoch import SharedEpoch
from gtransformer.data.word_dropout import WordDropout

logger = logging.getLogger(__name__)

READ_AT_ONCE = 10_000  # instances


class InstanceDataset(BaseWrapperDataset):
    """Instances of one side as token indices, ``<s> a b </s> <s> c </s>``.

    ``fairseq-preprocess`` and ``fairseq-interactive`` end every line with ``</s>`` although the last sentence of an
    instance already does: the second one is dropped. Optionally ``<s>`` opens an instance that has none.

    Args:
        dataset: anything that yields (length,) int64 tensors by index.
        sizes: (instances,) lengths of what ``dataset`` yields.
        bos, eos: indices of ``<s>`` and ``</s>``.
        prepend_bos: put ``<s>`` before instances that do not start with it (``--prepend-bos``).
    """

    def __init__(self, dataset, sizes, bos: int, eos: int, prepend_bos: bool = False):
        super().__init__(dataset)
        self.bos, self.eos, self.prepend_bos = bos, eos, prepend_bos
        # Exact for instances made by scripts/prepare.sh, stored with a second </s>, and for sentences stored without <s>.
        self._sizes = np.maximum(np.asarray(sizes) + (1 if prepend_bos else -1), 1)

    def __getitem__(self, index: int) -> Tensor:
        tokens = self.dataset[index]
        if len(tokens) > 1 and tokens[-1] == self.eos and tokens[-2] == self.eos:
            tokens = tokens[:-1]
        if self.prepend_bos and (len(tokens) == 0 or tokens[0] != self.bos):
            tokens = torch.cat([tokens.new_tensor([self.bos]), tokens])
        return tokens

    def first_unopened(self, stored: Path | None = None) -> int | None:
        """The first instance that does not begin with ``<s>``; None if all do.

        Args:
            stored: the file that a memory-mapped dataset lies in, where the instances' first tokens are read at once;
                other datasets are read instance by instance.
        """
        if self.prepend_bos:
            return None
        unopened = np.flatnonzero(first_tokens(self.dataset, stored) != self.bos)
        return int(unopened[0]) if len(unopened) else None

    @property
    def sizes(self) -> np.ndarray:
        """(instances,) int64."""
        return self._sizes

    def num_tokens(self, index: int) -> int:
        """Tokens of one instance."""
        return int(self._sizes[index])

    def size(self, index: int) -> int:
        """Tokens of one instance."""
        return int(self._sizes[index])


def first_tokens(dataset, stored: Path | None = None) -> np.ndarray:
    """(instances,) int64, the first token of every instance, -1 of an empty one; see ``first_unopened``."""
    if isinstance(dataset, MMapIndexedDataset) and stored is not None and len(dataset):
        sizes = np.asarray(dataset.sizes, dtype=np.int64)
        kind = {2: np.uint16, 4: np.int32, 8: np.int64}[stored.stat().st_size // max(1, int(sizes.sum()))]
        starts = np.cumsum(sizes) - sizes
        tokens = np.memmap(stored, dtype=kind, mode="r")
        return np.where(sizes > 0, tokens[np.minimum(starts, len(tokens) - 1)].astype(np.int64), -1)
    first = np.full(len(dataset), -1, dtype=np.int64)
    for begin in range(0, len(dataset), READ_AT_ONCE):
        block = range(begin, min(begin + READ_AT_ONCE, len(dataset)))
        if getattr(dataset, "supports_prefetch", False):  # the layouts of older fairseq cannot be read before
            dataset.prefetch(list(block))
        for number in block:
            tokens = dataset[number]
            first[number] = int(tokens[0]) if len(tokens) else -1
    return first


class DocumentPairDataset(LanguagePairDataset):
    """Source instances, what the decoder reads and predicts of the target's, and word dropout on both inputs.

    The decoder reads ``<s> a b </s> <s> c </s>`` and predicts ``a b </s> <s> c </s> [de]``: the language symbol ends
    the output and never stands in an input, the first ``<s>`` is given and not predicted.

    Args:
        source, target: InstanceDataset of each side; ``target`` may be None when translating.
        dictionary, target_dictionary: of the two sides.
        language: index of the target language symbol.
        word_dropout: applied to the source, never to what is predicted; None for none.
        target_word_dropout: applied to the decoder's input; by default the same, for a joined dictionary.
        word_dropout_epochs: N of ``--doc-noise-epochs``: epochs 1 to N - 1 have word dropout, as in the release.
        options: further arguments of fairseq's LanguagePairDataset (padding side, shuffling, ...).

    Attributes:
        order_seed: draws the order of instances of equal length, from which batches are filled.
        shards: the number of batches is a multiple of it, so that each process of a distributed training has as many.
    """

    def __init__(
        self,
        source: InstanceDataset,
        target: InstanceDataset | None,
        dictionary: Dictionary,
        target_dictionary: Dictionary,
        language: int,
        word_dropout: WordDropout | None = None,
        word_dropout_epochs: int = 0,
        target_word_dropout: WordDropout | None = None,
        **options,
    ):
        super().__init__(
            source,
            source.sizes,
            dictionary,
            target,
            None if target is None else target.sizes,
            target_dictionary,
            eos=language,
            **options,
        )
        self.language = language
        self.word_dropout, self.word_dropout_epochs = word_dropout, word_dropout_epochs
        self.target_word_dropout = target_word_dropout or word_dropout
        self.order_seed, self.shards = 1, 1
        self._epoch = SharedEpoch()

    def __getitem__(self, index: int) -> dict:
        example, epoch = super().__getitem__(index), self._epoch.value
        noisy = self.word_dropout is not None and epoch < self.word_dropout_epochs
        target = example["target"]
        if target is not None:
            example["prev_output_tokens"] = (
                self.target_word_dropout(target, epoch, index, side=1) if noisy else target
            )
            example["target"] = torch.cat([target[1:], target.new_tensor([self.language])])
        if noisy:
            example["source"] = self.word_dropout(example["source"], epoch, index, side=0)
        return example

    def set_epoch(self, epoch: int) -> None:
        """Told by fairseq's iterator before every epoch; data loader workers hear of it, too."""
        super().set_epoch(epoch)
        self._epoch.value = epoch

    def ordered_indices(self) -> np.ndarray:
        """Instances by length, equally long ones in random order; (instances,) int64.

        The order depends on ``order_seed`` alone. fairseq draws it from a generator that it seeds by the epoch in which
        its iterator is made, so that a resumed run would cut other batches than the run that was interrupted, and leave
        out or repeat some of its epoch's instances.
        """
        with data_utils.numpy_seed(self.order_seed):
            return super().ordered_indices()

    def batch_by_size(
        self,
        indices: np.ndarray,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[np.ndarray]:
        """Cut ``indices`` into batches of at most ``max_tokens`` real tokens on the longer side.

        Padding costs nothing in the ragged layout, so it does not count. ``required_batch_size_multiple`` is ignored:
        it brings nothing here, and fairseq-fixed drops the last batch where it does not divide it. An instance longer
        than ``max_tokens`` is a batch of its own.
        """
        batches = fill_batches(indices, self.num_tokens_vec(indices), max_tokens, max_sentences)
        batches = make_divisible(batches, self.shards)
        if len(batches) % self.shards:
            logger.warning(
                "%d batches of one instance each for %d processes: some get an empty one at the end of an epoch; with "
                "accumulated gradients that update is too large",
                len(batches), self.shards,
            )  # fmt: skip
        return batches


def fill_batches(
    indices: np.ndarray, tokens: np.ndarray, max_tokens: int | None, max_instances: int | None
) -> list[np.ndarray]:
    """Consecutive indices in batches, each as full as the limits allow; ``tokens`` (n,) are the instances' sizes."""
    starts, filled = [0], 0
    for position, size in enumerate(np.asarray(tokens).tolist()):
        count = position - starts[-1]
        if count and (
            (max_tokens is not None and filled + size > max_tokens)
            or (max_instances is not None and max_instances > 0 and count >= max_instances)
        ):
            starts.append(position)
            filled = 0
        filled += size
    return np.split(np.asarray(indices), starts[1:]) if len(indices) else []


def make_divisible(batches: list[np.ndarray], shards: int) -> list[np.ndarray]:
    """The same instances in a number of batches that ``shards`` divides: the fullest batches are halved.

    Otherwise fairseq gives some processes an empty batch at the end of an epoch. Where updates accumulate several
    batches, it then forgets how many tokens these processes have counted before, and the update is too large. Batches
    of one instance stay as they are; where there are only such, the number may not be a multiple.
    """
    batches = list(batches)
    while len(batches) % shards:
        fullest = max(range(len(batches)), key=lambda number: len(batches[number]))
        if len(batches[fullest]) < 2:
            break
        batches[fullest : fullest + 1] = np.array_split(batches[fullest], 2)
    return batches
