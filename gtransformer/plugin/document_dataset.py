"""Pairs of documents as a fairseq dataset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, LanguagePairDataset
from fairseq.utils import apply_to_sample

from gtransformer.data.batch_fields import FIRST_SENTENCE, with_counted_targets
from gtransformer.data.batching import fill_batches
from gtransformer.data.packing import PACKED, Packer
from gtransformer.data.word_dropout import WordDropout


class DocumentPairDataset(LanguagePairDataset):
    """Source instances, decoder inputs and targets, with word dropout on both inputs.

    The decoder reads ``<s> a b </s> <s> c </s>`` and predicts ``a b </s> <s> c </s> [de]``. The
    language symbol ends the output and never occurs in an input; the first ``<s>`` is given and not
    predicted.

    Args:
        source, target: instances of each side, with their ``sizes``; ``target`` may be None when
        translating.
        dictionary, target_dictionary: of the two sides.
        language: index of the target language symbol.
        word_dropout: applied to the source and to the decoder's input, never to targets; None for
            none.
        context: (instances,) int64, number of each target's first tokens that do not count in the
            loss; None: all count.
        unpredicted: target symbols that do not count in the loss.
        spans: (instances, 5) int64, where they lie in their documents (``sentence_spans``); None:
            not known.
        in_order: batches hold consecutive instances of one document in order; else they are filled
            by size.
        numbers: (instances,) int64, number of each instance's first sentence in its document, from
            1, which is an input of the model; None: it reads none.
        shuffle: whether equally long instances have a random order, by ``seed``.

    Attributes:
        packer: makes batches of fixed shapes instead, for a compiled training.
    """

    packer: Packer | None = None

    def __init__(
        self,
        source: FairseqDataset,
        target: FairseqDataset | None,
        dictionary: Dictionary,
        target_dictionary: Dictionary,
        language: int,
        word_dropout: tuple[WordDropout, WordDropout] | None = None,
        context: np.ndarray | None = None,
        unpredicted: Sequence[int] = (),
        spans: np.ndarray | None = None,
        in_order: bool = False,
        numbers: np.ndarray | None = None,
        shuffle: bool = True,
        seed: int = 1,
    ):
        sizes = None if target is None else target.sizes
        sides = source, source.sizes, dictionary, target, sizes, target_dictionary
        super().__init__(*sides, eos=language, shuffle=shuffle)
        self.language, self.word_dropout = language, word_dropout
        self.context, self.unpredicted = context, unpredicted
        self.numbers, self.spans, self.seed = numbers, spans, seed
        self.documents = spans[:, [0, 3]] if in_order else None  # document, first current sentence
        # fairseq makes its data loader once: its workers hold copies of this dataset for the whole
        # training. The epoch reaches them only in shared memory. It is set while no batch is being
        # loaded.
        self._epoch = torch.tensor(1, dtype=torch.int64).share_memory_()

    def __getitem__(self, index: int) -> dict:
        source, target = self.src[index], None if self.tgt is None else self.tgt[index]
        example = {"id": index, "source": source, "target": target}
        if target is not None:
            example["prev_output_tokens"] = target
            example["target"] = torch.cat([target[1:], target.new_tensor([self.language])])
        if self.word_dropout is not None:
            for side, name in enumerate(("source", "prev_output_tokens")):
                example[name] = self.word_dropout[side](
                    example[name], int(self._epoch), index, side
                )
        return example

    def collater(self, samples: list[dict], pad_to_length: dict | None = None) -> dict:
        """Collate as fairseq does, longest source first; with document order, in that order.

        ``batch_fields.counted`` finds what counts in the loss in the batch.
        """
        if not samples:
            return {}
        if self.packer is not None:
            return self._packed(samples)
        batch = super().collater(samples, pad_to_length)
        if self.documents is not None:  # undo fairseq's order by length
            rows = {number: row for row, number in enumerate(batch["id"].tolist())}
            order = torch.tensor([rows[sample["id"]] for sample in samples])
            batch = apply_to_sample(lambda values: values[order], batch)
        numbers = batch["id"].numpy()
        if self.numbers is not None:
            batch["net_input"][FIRST_SENTENCE] = torch.from_numpy(self.numbers[numbers])
        if self.tgt is None:
            return batch
        context = None if self.context is None else torch.from_numpy(self.context[numbers])
        return with_counted_targets(batch, self.tgt_dict.pad(), context, self.unpredicted)

    def _packed(self, samples: list[dict]) -> dict:
        """Return a batch of fixed shapes, whose targets that do not count are padding."""
        padding, unpredicted = self.tgt_dict.pad(), torch.tensor(self.unpredicted, dtype=torch.long)
        targets = []
        for sample in samples:
            counts = ~torch.isin(sample["target"], unpredicted)
            if self.context is not None:
                counts[: self.context[sample["id"]]] = False
            targets.append(sample["target"].where(counts, padding))
        sides = ([sample[name] for sample in samples] for name in ("source", "prev_output_tokens"))
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": sum(int(target.ne(padding).sum()) for target in targets),
            PACKED: self.packer(*sides, targets),
        }

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; fairseq's iterator calls it before every epoch. Data loader workers
        receive it, too.
        """
        super().set_epoch(epoch)
        self._epoch.fill_(epoch)

    def ordered_indices(self) -> np.ndarray:
        """Return instances by length, equally long ones in random order, or by document;
        (instances,) int64.

        It is the same order in every epoch, so that a training that resumes in the middle of an
        epoch continues with the instances that are left.
        """
        if self.documents is not None:
            return np.lexsort(self.documents.T[::-1])
        everything = np.arange(len(self))
        if self.shuffle:
            everything = np.random.RandomState(self.seed).permutation(len(self))
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

        Padding does not count because the ragged layout has none. ``required_batch_size_multiple``
        is ignored: it is useless here, and fairseq-fixed drops a last batch that it does not
        divide. An instance longer than ``max_tokens`` is a batch of its own. In document order each
        document ends a batch.
        """
        documents = None if self.documents is None else self.documents[indices, 0]
        tokens = self.num_tokens_vec(indices)
        return fill_batches(indices, tokens, max_tokens, max_sentences, documents)
