"""Instances as they are stored in a prepared corpus, one side, and the begins of their sentences."""

from __future__ import annotations

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, MMapIndexedDataset
from torch import Tensor

SEARCHED_AT_ONCE = 1 << 24  # tokens


class InstanceDataset(BaseWrapperDataset):
    """Instances of one side as token indices, ``<s> a b </s> <s> c </s>``.

    ``fairseq-preprocess`` and ``fairseq-interactive`` end every line with ``</s>`` although the last sentence of an
    instance already does: the second one is dropped. Optionally ``<s>`` is put before an instance that has none.

    Args:
        dataset: returns (length,) int64 tensors by index.
        sizes: (instances,) lengths of these.
        bos, eos: indices of ``<s>`` and ``</s>``.
        prepend_bos: put ``<s>`` before instances that do not start with it (``--prepend-bos``).
    """

    def __init__(self, dataset, sizes, bos: int, eos: int, prepend_bos: bool = False):
        super().__init__(dataset)
        self.bos, self.eos, self.prepend_bos = bos, eos, prepend_bos
        self._stored = np.asarray(sizes, dtype=np.int64)
        # Exact for instances made by gtransformer prepare, stored with a second </s>, and sentences stored without <s>.
        self._sizes = np.maximum(self._stored + (1 if prepend_bos else -1), 1)

    def __getitem__(self, index: int) -> Tensor:
        tokens = self.dataset[index]
        if len(tokens) > 1 and tokens[-1] == self.eos and tokens[-2] == self.eos:
            tokens = tokens[:-1]
        if self.prepend_bos and (len(tokens) == 0 or tokens[0] != self.bos):
            tokens = torch.cat([tokens.new_tensor([self.bos]), tokens])
        return tokens

    @property
    def sizes(self) -> np.ndarray:
        """(instances,) int64."""
        return self._sizes

    def num_tokens(self, index: int) -> int:
        """Return the tokens of one instance, which the base class would take from the stored ones."""
        return int(self._sizes[index])

    size = num_tokens

    def stored_tokens(self) -> np.ndarray:
        """Return all tokens as they are stored, end to end; memory-mapped binaries are not copied."""
        if isinstance(self.dataset, MMapIndexedDataset) and len(self.dataset):
            return np.frombuffer(self.dataset._bin_buffer, self.dataset._index.dtype)
        typed = [np.asarray(self.dataset[number], dtype=np.int32) for number in range(len(self.dataset))]
        return np.concatenate([np.zeros(0, dtype=np.int32), *typed])

    def invalid_token(self, words: int) -> int | None:
        """Return a token that is not in a dictionary of ``words`` words; None if there is none."""
        tokens = self.stored_tokens()
        for begin in range(0, len(tokens), SEARCHED_AT_ONCE):
            block = tokens[begin : begin + SEARCHED_AT_ONCE]
            for token in (block.min(), block.max()):
                if not 0 <= token < words:
                    return int(token)
        return None

    def first_without_bos(self) -> int | None:
        """Return the first instance that does not begin with ``<s>``; None if all do."""
        tokens, full = self.stored_tokens(), np.flatnonzero(self._stored)
        opened = np.full(len(self), self.prepend_bos)
        opened[full] |= tokens[(np.cumsum(self._stored) - self._stored)[full]] == self.bos
        return None if opened.all() else int(np.argmin(opened))

    def sentence_borders(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the borders of all sentences: instance, first token in it and length, three (sentences,) int64.

        A sentence reaches from its ``<s>`` to the next one, or to the end of the instance as ``__getitem__`` returns
        it.
        """
        tokens, sizes = self.stored_tokens(), self._stored
        found = [
            np.flatnonzero(tokens[begin : begin + SEARCHED_AT_ONCE] == self.bos) + begin
            for begin in range(0, len(tokens), SEARCHED_AT_ONCE)
        ]
        positions, ends = np.concatenate([np.zeros(0, dtype=np.int64), *found]), np.cumsum(sizes)
        starts, lengths = ends - sizes, sizes.copy()
        instance = np.searchsorted(starts, positions, side="right") - 1
        begin = positions - starts[instance]
        twice = np.flatnonzero(sizes > 1)
        lengths[twice] -= (tokens[ends[twice] - 1] == self.eos) & (tokens[ends[twice] - 2] == self.eos)
        if self.prepend_bos:
            unopened = np.ones(len(sizes), dtype=bool)
            unopened[instance[begin == 0]] = False
            lengths += unopened
            begin += unopened[instance]
            added = np.flatnonzero(unopened)
            order = np.argsort(np.concatenate([added * 2, instance * 2 + 1]), kind="stable")
            instance = np.concatenate([added, instance])[order]
            begin = np.concatenate([np.zeros_like(added), begin])[order]
        if not len(begin):
            return instance, begin, begin
        last = np.append(instance[1:] != instance[:-1], True)
        return instance, begin, np.where(last, lengths[instance], np.append(begin[1:], 0)) - begin
