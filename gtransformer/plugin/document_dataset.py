"""Pairs of documents as a fairseq dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, LanguagePairDataset

from gtransformer.data.batch_fields import CONTEXT, CONTEXT_TOTAL, FIRST_SENTENCE
from gtransformer.data.batching import document_order, fill_batches
from gtransformer.data.word_dropout import WordDropout
from gtransformer.plugin.sentences import SentenceSpan


class DocumentPairDataset(LanguagePairDataset):
    """Source instances, decoder inputs and targets, with word dropout on both inputs.

    The decoder reads ``<s> a b </s> <s> c </s>`` and predicts ``a b </s> <s> c </s> [de]``. The language symbol ends
    the output and never occurs in an input; the first ``<s>`` is given and not predicted.

    Args:
        source, target: instances of each side, with their ``sizes``; ``target`` may be None when translating.
        dictionary, target_dictionary: of the two sides.
        language: index of the target language symbol.
        word_dropout: applied to the source, never to targets; None for none.
        target_word_dropout: applied to the decoder's input; by default the same, for a joined dictionary.
        word_dropout_epochs: N of ``--doc-noise-epochs``: epochs 1 to N - 1 have word dropout, as in the release.
        context: (instances,) int64, number of each target's first tokens that do not count in the loss; None: all
            count.
        documents: (instances, 2) int64, document and position in it: batches hold consecutive instances of one document
            in order. None: batches are filled by size.
        numbers: (instances,) int64, number of each instance's first sentence in its document, from 1; None: batches do
            not include it.
        spans: reads the instances' spans in their documents; None, or a None result: not known.
        costs: (instances,) int64, tokens that each adds to a batch, if it is not translated at once; None: all its
            tokens.
        options: further arguments of fairseq's LanguagePairDataset (padding side, shuffling, ...).
    """

    def __init__(
        self,
        source: FairseqDataset,
        target: FairseqDataset | None,
        dictionary: Dictionary,
        target_dictionary: Dictionary,
        language: int,
        word_dropout: WordDropout | None = None,
        word_dropout_epochs: int = 0,
        target_word_dropout: WordDropout | None = None,
        context: np.ndarray | None = None,
        documents: np.ndarray | None = None,
        numbers: np.ndarray | None = None,
        spans: Callable[[], Sequence[SentenceSpan] | None] | None = None,
        costs: np.ndarray | None = None,
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
        self.context, self.documents, self.numbers, self.costs = context, documents, numbers, costs
        self._read_spans = spans
        # fairseq makes its data loader once: its workers hold copies of this dataset for the whole training. The epoch
        # reaches them only in shared memory. It is set while no batch is being loaded.
        self._epoch = torch.tensor(1, dtype=torch.int64).share_memory_()

    def __getitem__(self, index: int) -> dict:
        example, epoch = super().__getitem__(index), int(self._epoch)
        noisy = self.word_dropout is not None and epoch < self.word_dropout_epochs
        target = example["target"]
        if target is not None:
            example["prev_output_tokens"] = self.target_word_dropout(target, epoch, index, side=1) if noisy else target
            example["target"] = torch.cat([target[1:], target.new_tensor([self.language])])
        if noisy:
            example["source"] = self.word_dropout(example["source"], epoch, index, side=0)
        return example

    def collater(self, samples: list[dict], pad_to_length: dict | None = None) -> dict:
        """Collate as fairseq does, longest source first; with document order, in that order.

        If context does not count in the loss, ``batch_fields.without_context_loss`` finds its fields in the batch.
        """
        batch = super().collater(samples, pad_to_length)
        if not samples:
            return batch
        if self.documents is not None:
            batch = _reordered(batch, [sample["id"] for sample in samples])
        if self.context is not None and batch["target"] is not None:
            context = self.context[batch["id"].numpy()]
            batch |= {CONTEXT: torch.from_numpy(context), CONTEXT_TOTAL: int(context.sum())}
        if self.numbers is not None:
            batch[FIRST_SENTENCE] = torch.from_numpy(self.numbers[batch["id"].numpy()])
        return batch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; fairseq's iterator calls it before every epoch. Data loader workers receive it, too."""
        super().set_epoch(epoch)
        self._epoch.fill_(epoch)

    def spans(self) -> Sequence[SentenceSpan] | None:
        """Return each instance's span in its document; None if not known."""
        return None if self._read_spans is None else self._read_spans()

    def ordered_indices(self, seed: int | None = None) -> np.ndarray:
        """Return instances by length, equally long ones in random order, or by document; (instances,) int64.

        The order is fairseq's under its ``numpy_seed``. But numpy's global generator is not touched, since a thread
        that loads data may use it. ``seed`` None: an unpredictable order.
        """
        if self.documents is not None:
            return document_order(self.documents)
        everything = np.random.RandomState(seed).permutation(len(self)) if self.shuffle else np.arange(len(self))
        lengths = [self.src_sizes] if self.tgt_sizes is None else [self.src_sizes, self.tgt_sizes]
        return everything[np.lexsort([side[everything] for side in reversed(lengths)])]

    def batch_by_size(
        self,
        indices: np.ndarray,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[np.ndarray]:
        """Cut ``indices`` into batches of at most ``max_tokens`` real tokens on the longer side.

        Padding does not count because the ragged layout has none. ``required_batch_size_multiple`` is ignored: it is
        useless here, and fairseq-fixed drops a last batch that it does not divide. An instance longer than
        ``max_tokens`` is a batch of its own. In document order each document ends a batch.
        """
        documents = None if self.documents is None else self.documents[indices, 0]
        tokens = self.num_tokens_vec(indices) if self.costs is None else self.costs[indices]
        return fill_batches(indices, tokens, max_tokens, max_sentences, documents)


def _reordered(batch: dict, ids: list[int]) -> dict:
    """Return a collated batch with its instances in the order of ``ids``."""
    positions = {number: position for position, number in enumerate(batch["id"].tolist())}
    order = torch.tensor([positions[number] for number in ids])

    def moved(value):
        return value.index_select(0, order) if isinstance(value, torch.Tensor) else value

    return {
        key: {name: moved(inner) for name, inner in value.items()} if key == "net_input" else moved(value)
        for key, value in batch.items()
    }
