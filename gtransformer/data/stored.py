"""Instances as they lie in a prepared corpus, one side, and where their sentences begin."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, MMapIndexedDataset
from fairseq.data.huffman import HuffmanMMapIndex
from fairseq.data.indexed_dataset import IndexedDataset, _code_to_dtype, data_file_path, index_file_path
from torch import Tensor

from gtransformer.errors import UserError

# What the index of memory-mapped binaries begins with: version, type, instances. Behind it are lengths and places.
MAGIC, HEAD = b"MMIDIDX\0\0", struct.Struct("<9sQBQ")
OTHERS = tuple(index._HDR_MAGIC[:8] for index in (IndexedDataset, HuffmanMMapIndex))  # other layouts of fairseq's
READ_AT_ONCE = 10_000  # instances
SEARCHED_AT_ONCE = 1 << 24  # tokens


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
        # Exact for instances made by scripts/prepare.sh, stored with a second </s>, and sentences stored without <s>.
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

    def sentence_borders(self, stored: Path | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where all sentences lie: instance, first token in it and length, three (sentences,) int64.

        A sentence reaches from its ``<s>`` to the next one, or to the end of the instance as ``__getitem__`` gives it.

        Args:
            stored: as for ``first_unopened``.
        """
        if isinstance(self.dataset, MMapIndexedDataset) and stored is not None and len(self.dataset):
            instance, begin, ends = self._borders_in_file(stored)
        else:
            instance, begin, ends = self._borders_one_by_one()
        if not len(begin):
            return instance, begin, begin
        end = np.append(begin[1:], 0)
        last = np.append(instance[1:] != instance[:-1], True)
        end[last] = ends[instance[last]]
        return instance, begin, end - begin

    def longest_sentences(self) -> np.ndarray:
        """(instances,) int64, tokens of the longest sentence of each."""
        instance, _, lengths = self.sentence_borders()
        longest = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(longest, instance, lengths)
        return longest

    def _borders_in_file(self, stored: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Instance and first token of all sentences; the length of every instance."""
        tokens, starts, sizes = mapped_tokens(self.dataset, stored)
        found = [
            np.flatnonzero(tokens[begin : begin + SEARCHED_AT_ONCE] == self.bos) + begin
            for begin in range(0, len(tokens), SEARCHED_AT_ONCE)
        ]
        places = np.concatenate([np.zeros(0, dtype=np.int64), *found])
        instance = np.searchsorted(starts, places, side="right") - 1
        begin = places - starts[instance]
        ends = starts + sizes
        twice = np.flatnonzero(sizes > 1)
        twice = twice[(tokens[ends[twice] - 1] == self.eos) & (tokens[ends[twice] - 2] == self.eos)]
        lengths = sizes.copy()
        lengths[twice] -= 1
        unopened = np.ones(len(sizes), dtype=bool)
        unopened[instance[begin == 0]] = False
        if self.prepend_bos:
            lengths += unopened
            begin += unopened[instance]
            added = np.flatnonzero(unopened)
            order = np.argsort(np.concatenate([added * 2, instance * 2 + 1]), kind="stable")
            instance = np.concatenate([added, instance])[order]
            begin = np.concatenate([np.zeros_like(added), begin])[order]
        return instance, begin, lengths

    def _borders_one_by_one(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same for any dataset."""
        instances, begins, lengths = [], [], np.zeros(len(self), dtype=np.int64)
        for number, tokens in read_all(self):
            begin = np.flatnonzero(tokens.numpy() == self.bos)
            instances.append(np.full(len(begin), number, dtype=np.int64))
            begins.append(begin)
            lengths[number] = len(tokens)
        nothing = np.zeros(0, dtype=np.int64)
        return np.concatenate([nothing, *instances]), np.concatenate([nothing, *begins]), lengths


def check_binary(path: str | Path) -> None:
    """Raise UserError for binaries that are not as long as they say; ``path`` is without ``.bin`` and ``.idx``.

    fairseq fails on them, if at all, with whatever numpy says and in the middle of a training. Only memory-mapped ones
    are looked into; others that fairseq knows are left to it.
    """
    index, data = Path(index_file_path(str(path))), Path(data_file_path(str(path)))
    with open(index, "rb") as stream:
        head = stream.read(HEAD.size)
    if head.startswith(OTHERS):
        return
    damaged = UserError(f"{index}: cut short or damaged, it cannot be read; prepare the corpus again")
    if not head.startswith(MAGIC) or len(head) < HEAD.size:
        raise damaged
    _, version, code, number = HEAD.unpack(head)
    if version != 1 or code not in _code_to_dtype or index.stat().st_size != HEAD.size + 12 * number:
        raise damaged
    sizes = np.fromfile(index, np.int32, number, offset=HEAD.size).astype(np.int64)
    width = np.dtype(_code_to_dtype[code]).itemsize
    begins = np.fromfile(index, np.int64, number, offset=HEAD.size + 4 * number)
    if (sizes < 0).any() or not np.array_equal(begins, (np.cumsum(sizes) - sizes) * width):
        raise damaged
    if not data.is_file():
        raise UserError(f"{data}: no such file, though its index is there; prepare the corpus again")
    if data.stat().st_size != sizes.sum() * width:
        raise UserError(
            f"{data}: has {data.stat().st_size} bytes, its index says {sizes.sum() * width}; prepare the corpus again"
        )
    if not sizes.sum():
        raise UserError(f"{data}: all of its {number} instances are empty; prepare the corpus again")


def first_tokens(dataset, stored: Path | None = None) -> np.ndarray:
    """(instances,) int64, the first token of every instance, -1 of an empty one; see ``first_unopened``."""
    if isinstance(dataset, MMapIndexedDataset) and stored is not None and len(dataset):
        tokens, starts, sizes = mapped_tokens(dataset, stored)
        return np.where(sizes > 0, tokens[np.minimum(starts, len(tokens) - 1)].astype(np.int64), -1)
    first = np.full(len(dataset), -1, dtype=np.int64)
    for number, tokens in read_all(dataset):
        first[number] = int(tokens[0]) if len(tokens) else -1
    return first


def foreign_token(dataset, words: int, stored: Path | None = None) -> int | None:
    """A token of the instances that is none of so many ``words``, counted from 0; None if there is none such.

    ``stored``: as for ``InstanceDataset.first_unopened``.
    """
    if isinstance(dataset, MMapIndexedDataset) and stored is not None and len(dataset):
        tokens = mapped_tokens(dataset, stored)[0]
        blocks = (tokens[begin : begin + SEARCHED_AT_ONCE] for begin in range(0, len(tokens), SEARCHED_AT_ONCE))
    else:
        blocks = (tokens.numpy() for _, tokens in read_all(dataset))
    for block in blocks:
        for token in (block.min(initial=0), block.max(initial=0)):
            if not 0 <= token < words:
                return int(token)
    return None


def mapped_tokens(dataset: MMapIndexedDataset, stored: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All tokens of a dataset that lies in the file ``stored``, end to end; each instance's first token and length."""
    sizes = np.asarray(dataset.sizes, dtype=np.int64)
    kind = {2: np.uint16, 4: np.int32, 8: np.int64}[stored.stat().st_size // max(1, int(sizes.sum()))]
    return np.memmap(stored, dtype=kind, mode="r"), np.cumsum(sizes) - sizes, sizes


def read_all(dataset):
    """(number, tokens) of every instance, in order; read ahead where the layout can."""
    for begin in range(0, len(dataset), READ_AT_ONCE):
        block = range(begin, min(begin + READ_AT_ONCE, len(dataset)))
        if getattr(dataset, "supports_prefetch", False):  # the layouts of older fairseq cannot be read before
            dataset.prefetch(list(block))
        for number in block:
            yield number, dataset[number]
