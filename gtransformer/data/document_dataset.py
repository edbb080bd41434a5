"""Pairs of documents as fairseq reads them."""

from __future__ import annotations

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, Dictionary, LanguagePairDataset
from torch import Tensor

from gtransformer.data.word_dropout import WordDropout


class InstanceDataset(BaseWrapperDataset):
    """Instances of one side, as token indices without what binarising or language conventions add or lack.

    ``fairseq-preprocess`` and ``fairseq-interactive`` end every line with ``</s>`` although the last sentence of an
    instance already does: the second one is dropped. Optionally ``<s>`` opens an instance that has none, and a
    language symbol closes it.

    Args:
        dataset: anything that yields (length,) int64 tensors by index.
        sizes: (instances,) lengths of what ``dataset`` yields.
        eos: index of ``</s>``.
        bos: index of ``<s>`` if it is to be put before instances that do not start with it (``--prepend-bos``).
        language: index of the language symbol to append, or None.
    """

    def __init__(self, dataset, sizes, eos: int, bos: int | None = None, language: int | None = None):
        super().__init__(dataset)
        self.eos, self.bos, self.language = eos, bos, language
        # An upper bound of the true length (by at most two), exact for instances made by scripts/prepare.sh.
        change = -1 + (language is not None)
        self._sizes = np.maximum(np.asarray(sizes) + change, 1)

    def __getitem__(self, index: int) -> Tensor:
        tokens = self.dataset[index]
        if len(tokens) > 1 and tokens[-1] == self.eos and tokens[-2] == self.eos:
            tokens = tokens[:-1]
        if self.bos is not None and (len(tokens) == 0 or tokens[0] != self.bos):
            tokens = torch.cat([tokens.new_tensor([self.bos]), tokens])
        if self.language is not None:
            tokens = torch.cat([tokens, tokens.new_tensor([self.language])])
        return tokens

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


class DocumentPairDataset(LanguagePairDataset):
    """Source instances, target instances ending in the language symbol, and word dropout on both inputs.

    Args:
        source, target: InstanceDataset of each side; ``target`` may be None when translating.
        dictionary, target_dictionary: of the two sides.
        language: index of the target language symbol, which opens the decoder's input and ends its output.
        word_dropout: applied to the source, never to the targets; None for none.
        target_word_dropout: applied to the decoder's input; by default the same, for a joined dictionary.
        word_dropout_epochs: only in the first so many epochs.
        options: further arguments of fairseq's LanguagePairDataset (padding side, shuffling, ...).
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
        self.epoch = 1

    def __getitem__(self, index: int) -> dict:
        example = super().__getitem__(index)
        if self.word_dropout is None or self.epoch > self.word_dropout_epochs:
            return example
        example["source"] = self.word_dropout(example["source"], self.epoch, index, side=0)
        if example["target"] is not None:
            shifted = torch.cat([example["target"].new_tensor([self.language]), example["target"][:-1]])
            example["prev_output_tokens"] = self.target_word_dropout(shifted, self.epoch, index, side=1)
        return example

    def set_epoch(self, epoch: int) -> None:
        """Told by fairseq's iterator before every epoch."""
        super().set_epoch(epoch)
        self.epoch = epoch

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
        return fill_batches(indices, self.num_tokens_vec(indices), max_tokens, max_sentences)


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
