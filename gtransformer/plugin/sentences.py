"""A prepared corpus as sentences: its documents can be read sentence by sentence, however its instances are stored.

Sentence borders are the ``<s>`` of the binaries; document borders are in the instance index. A corpus without an index
(with the layout of the authors' release) has no document borders: there every stored instance is a document.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from fairseq.data import FairseqDataset
from torch import Tensor

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import Instances, Ranges
from gtransformer.errors import UserError
from gtransformer.plugin.stored import InstanceDataset


class SideSentences:
    """The sentences of one side, numbered from 0 in the order of ``Sentences``.

    Attributes:
        lengths: (sentences,) int64 tokens, ``<s>`` and ``</s>`` included.
        stored: (sentences,) int64, the instance that holds each.
    """

    def __init__(self, instances: InstanceDataset):
        self.instances = instances
        self.stored, self.begin, self.lengths = instances.sentence_borders()

    def counts(self) -> np.ndarray:
        """Return (instances,) int64, the sentences of each stored instance."""
        return np.bincount(self.stored, minlength=len(self.instances))

    def reorder(self, order: np.ndarray) -> None:
        """Renumber the sentences: sentence i is the former ``order[i]``."""
        self.stored, self.begin, self.lengths = self.stored[order], self.begin[order], self.lengths[order]

    def tokens(self, first: int, last: int) -> Tensor:
        """Return (tokens,) int64 of the sentences ``first`` to ``last - 1``, at least one."""
        stored, begin = self.stored[first:last], self.begin[first:last]
        apart = (np.diff(stored) != 0) | (np.diff(begin) != self.lengths[first : last - 1])
        pieces = []
        for one, other in pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), last - first]):
            whole, end = self.instances[int(stored[one])], first + other - 1
            pieces.append(whole[int(begin[one]) : int(self.begin[end] + self.lengths[end])])
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


class Sentences:
    """All sentences of a split, document by document.

    Args:
        source, target: the stored instances; ``target`` None for text without.
        name: of the files, for messages.
        instance_index: the sentences of each stored instance; None: every stored instance is a document.
        instance_index_name: of its file, for messages.

    Attributes:
        source, target: SideSentences; ``target`` None if there is none.
        document, position: (sentences,) int64, document and position in it, both from 0.

    Raises UserError if source, target and index have different numbers of sentences, or a sentence twice.
    """

    def __init__(
        self,
        source: InstanceDataset,
        target: InstanceDataset | None,
        name: str,
        instance_index: InstanceIndex | None = None,
        instance_index_name: Path | None = None,
    ):
        self.source = SideSentences(source)
        self.target = None if target is None else SideSentences(target)
        counts = self.source.counts()
        others = counts if self.target is None else self.target.counts()
        for number in np.flatnonzero(counts != others)[:1].tolist():
            raise UserError(
                f"{name}*: instance {number} has {counts[number]} source but {others[number]} target sentences, so its "
                "sentences cannot be regrouped; leave --instances as stored, or prepare the corpus again"
            )
        self.document = self.source.stored.copy()
        self.position = np.arange(len(self.document)) - (np.cumsum(counts) - counts)[self.document]
        if instance_index is None:
            return
        instance_index.check_counts(counts, instance_index_name)
        spans = np.array(instance_index.instances, dtype=np.int64).reshape(-1, 3)
        self.position += spans[self.document, 1]
        self.document = spans[self.document, 0]
        order = np.lexsort((self.position, self.document))
        self.document, self.position = self.document[order], self.position[order]
        for side in filter(None, (self.source, self.target)):
            side.reorder(order)
        for one in np.flatnonzero((np.diff(self.document) == 0) & (np.diff(self.position) == 0))[:1].tolist():
            raise UserError(
                f"{instance_index_name}: has sentence {self.position[one]} of document {self.document[one]} twice; "
                "prepare the corpus again"
            )

    def __len__(self) -> int:
        return len(self.document)

    def runs(self) -> Ranges:
        """Return [first, last) of consecutive sentences; a document with missing sentences has several runs."""
        follows = (np.diff(self.document) == 0) & (np.diff(self.position) == 1)
        cuts = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(self)]
        return list(pairwise(cuts)) if len(self) else []


class RunDataset(FairseqDataset):
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
        first, last = self.ranges[index].tolist()
        return self.sentences.tokens(first, last)


class Chosen(FairseqDataset):
    """Some instances of one side.

    Args:
        instances: a ``RunDataset`` or an ``InstanceDataset``.
        index: (n,) int64, those that are chosen.
    """

    def __init__(self, instances: FairseqDataset, index: np.ndarray):
        self.instances, self.index = instances, index
        self.sizes = instances.sizes[index]

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> Tensor:
        return self.instances[int(self.index[number])]


def tokens_between(lengths: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Return (n,) int64 tokens of the sentences [first, last) of ``ranges`` (n, 2); ``lengths`` (sentences,) are of
    all.
    """
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return ends[ranges[:, 1]] - ends[ranges[:, 0]]


@dataclass(frozen=True)
class SentenceSpan:
    """The sentences that the translation of an instance covers; all numbers count from 0.

    Attributes:
        document: of the split.
        first_sentence, sentences: the first translated sentence, and their number.
        current: (first sentence, sentences), those whose translation is used; None: all, in an instance as it is
            stored.
    """

    document: int
    first_sentence: int
    sentences: int
    current: tuple[int, int] | None = None


def stored_spans(path: Path, instances: InstanceDataset) -> list[SentenceSpan] | None:
    """Return the spans of a split's stored instances, by the instance index ``path``; None if there is no such file.

    Raises UserError for an index of another number of instances, or of sentences in one.
    """
    if not path.is_file():
        return None
    instance_index = InstanceIndex.load(path)
    instance_index.check_counts(SideSentences(instances).counts(), path)
    return [SentenceSpan(*row) for row in instance_index.instances]


def regrouped_spans(sentences: Sentences, instances: Instances) -> list[SentenceSpan]:
    """Return the spans of instances that were formed when the corpus was loaded."""
    (first, last), (begin, end) = instances.target.T, instances.current.T
    document, position = sentences.document[first], sentences.position
    columns = document, position[first], last - first, position[begin], end - begin
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [SentenceSpan(number, opening, count, (at, current)) for number, opening, count, at, current in rows]
