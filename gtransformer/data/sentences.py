"""Binarised text as sentences, and runs of them as data sets.

Sentences begin at the ``<s>`` of the binaries; which documents they belong to is in the instance
index. A corpus without an index (with the layout of the authors' release) has no document borders:
there every stored instance is a document.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import Instances, Ranges
from gtransformer.errors import UserError


class SideSentences:
    """The sentences of one side, numbered from 0 in the order in which they are stored.

    ``fairseq-preprocess`` and ``fairseq-interactive`` end every line with ``</s>`` although the
    last sentence of an instance already does: the second one is dropped.

    Args:
        stored: (tokens,) integers, the tokens of all instances end to end.
        sizes: (instances,) integers, the tokens of each.
        dictionary: of the side.
        name: of the file, for messages.

    Attributes:
        counts: (instances,) int64, the sentences of each stored instance.
        begin, lengths: (sentences,) int64, first token among all stored ones, and tokens with
            ``<s>`` and ``</s>``.

    Raises UserError for tokens that are not in the dictionary, and for an instance that does not
    begin with ``<s>``.
    """

    def __init__(self, stored: np.ndarray, sizes: np.ndarray, dictionary: Vocabulary, name: str):
        self.stored = stored
        largest = stored.max(initial=0)
        if largest >= len(dictionary):
            raise UserError(
                f"{name}: holds the word number {largest}, but the dictionary ends at "
                f"{len(dictionary) - 1}: it was made with another dictionary; prepare the corpus "
                "again"
            )
        bos, eos = dictionary.bos(), dictionary.eos()
        ends = np.cumsum(sizes, dtype=np.int64)
        starts = ends - sizes
        self.begin = np.flatnonzero(stored == bos)
        following = np.append(self.begin, len(stored))[np.searchsorted(self.begin, starts)]
        # An empty instance starts where the next one does.
        opened = (following == starts) & (starts < ends)
        if not opened.all():
            raise UserError(
                f"{name}: instance {np.argmin(opened)} does not begin with <s>: write every "
                "sentence as '<s> words </s>' (gtransformer prepare does)"
            )
        instance = np.searchsorted(starts, self.begin, side="right") - 1
        self.counts = np.bincount(instance, minlength=len(ends))
        # A sentence ends where the next one begins, the last one of an instance before a second
        # </s>.
        self.lengths = np.diff(self.begin, append=len(stored))
        ended_twice = (stored[ends - 1] == eos) & (stored[ends - 2] == eos)
        self.lengths[np.cumsum(self.counts) - 1] -= ended_twice

    def stored_ranges(self) -> np.ndarray:
        """Return (instances, 2) int64, [first, last) sentences of each stored instance."""
        ends = np.cumsum(self.counts)
        return np.stack([ends - self.counts, ends], 1)

    def reorder(self, order: np.ndarray) -> None:
        """Renumber the sentences: sentence i is the former ``order[i]``."""
        self.begin, self.lengths = self.begin[order], self.lengths[order]

    def tokens(self, first: int, last: int) -> Tensor:
        """Return (tokens,) int64 of the sentences ``first`` to ``last - 1``, at least one."""
        begin, lengths = self.begin[first:last].tolist(), self.lengths[first:last].tolist()
        pieces = [self.stored[at : at + length] for at, length in zip(begin, lengths, strict=True)]
        return torch.from_numpy(np.concatenate(pieces, dtype=np.int64))


class Sentences:
    """All sentences of a split, document by document.

    Args:
        source, target: the stored sentences, which are reordered; ``target`` None for text without.
        instance_index: the sentences of each stored instance; None: every stored instance is a
            document.
        name: of the files, for messages.

    Attributes:
        source, target: SideSentences; ``target`` None if there is none.
        document, position: (sentences,) int64, document and position in it, both from 0.

    Raises UserError if source, target and index have different numbers of sentences, or a sentence
    twice.
    """

    def __init__(
        self,
        source: SideSentences,
        target: SideSentences | None,
        instance_index: InstanceIndex | None,
        name: str,
    ):
        self.source, self.target, counts = source, target, source.counts
        others = counts if target is None else target.counts
        for number in np.flatnonzero(counts != others)[:1]:
            raise UserError(
                f"{name}*: instance {number} has {counts[number]} source but {others[number]} "
                "target sentences, so its sentences cannot be regrouped; leave --instances as "
                "stored, or prepare the corpus again"
            )
        self.document = np.repeat(np.arange(len(counts)), counts)
        self.position = np.arange(len(self.document)) - (np.cumsum(counts) - counts)[self.document]
        if instance_index is None:
            return
        spans = np.array(instance_index.instances, dtype=np.int64).reshape(-1, 3)
        self.position += spans[self.document, 1]
        self.document = spans[self.document, 0]
        order = np.lexsort((self.position, self.document))
        self.document, self.position = self.document[order], self.position[order]
        for side in filter(None, (source, target)):
            side.reorder(order)
        repeated = (np.diff(self.document) == 0) & (np.diff(self.position) == 0)
        for number in np.flatnonzero(repeated)[:1]:
            raise UserError(
                f"{name}instances.json: has sentence {self.position[number]} of document "
                f"{self.document[number]} twice; prepare the corpus again"
            )

    def __len__(self) -> int:
        return len(self.document)

    def runs(self) -> Ranges:
        """Return [first, last) of consecutive sentences; a document with missing sentences has
        several runs.
        """
        follows = (np.diff(self.document) == 0) & (np.diff(self.position) == 1)
        cuts = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(self)]
        return list(pairwise(cuts)) if len(self) else []


class RunDataset:
    """Runs of sentences of one side.

    Args:
        sentences: of the side.
        ranges: (instances, 2) int64, [first, last) sentences of each.
    """

    def __init__(self, sentences: SideSentences, ranges: np.ndarray):
        self.sentences, self.ranges = sentences, ranges
        self.sizes = tokens_between(sentences.lengths, ranges)

    def __len__(self) -> int:
        return len(self.ranges)

    def __getitem__(self, index: int) -> Tensor:
        return self.sentences.tokens(*self.ranges[index].tolist())


def tokens_between(lengths: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Return (n,) int64 tokens of the sentences [first, last) of ``ranges`` (n, 2); ``lengths``
    (sentences,) are of all.
    """
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return ends[ranges[:, 1]] - ends[ranges[:, 0]]


def sentence_spans(sentences: Sentences, instances: Instances) -> np.ndarray:
    """Locate instances in their documents.

    Returns:
        (instances, 5) int64: document, first target sentence, number of target sentences; first
        current sentence, number of current sentences. All count from 0.
    """
    (first, last), (begin, end) = instances.target.T, instances.current.T
    position = sentences.position
    columns = sentences.document[first], position[first], last - first, position[begin], end - begin
    return np.stack(columns, 1)
