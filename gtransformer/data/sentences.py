"""A prepared corpus as sentences: whatever instances it is stored in, its documents can be read sentence by sentence.

Sentence borders are the ``<s>`` of the binaries, document borders are in the sidecar. A corpus without one (laid out
like the authors' release's) holds no document borders: there every stored instance is a document of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq.data import FairseqDataset
from torch import Tensor

from gtransformer.data.instances import Ranges
from gtransformer.data.sidecar import Sidecar
from gtransformer.data.stored import InstanceDataset
from gtransformer.errors import UserError


@dataclass(frozen=True)
class StoredSide:
    """One side of a stored split: its instances and, where it is memory-mapped, the file with their tokens."""

    instances: InstanceDataset
    file: Path | None = None


class SideSentences:
    """The sentences of one side, numbered from 0 in the order that ``Sentences`` gives them.

    Attributes:
        lengths: (sentences,) int64 tokens, ``<s>`` and ``</s>`` included.
        stored: (sentences,) int64, the instance that holds each.
    """

    def __init__(self, side: StoredSide):
        self.instances = side.instances
        self.stored, self.begin, self.lengths = side.instances.sentence_borders(side.file)

    def counts(self) -> np.ndarray:
        """(instances,) int64 sentences of each stored instance."""
        return np.bincount(self.stored, minlength=len(self.instances))

    def reorder(self, order: np.ndarray) -> None:
        """Number the sentences anew: sentence i is what was ``order[i]``."""
        self.stored, self.begin, self.lengths = self.stored[order], self.begin[order], self.lengths[order]

    def tokens(self, first: int, last: int) -> Tensor:
        """(tokens,) int64 of the sentences ``first`` to ``last - 1``, one at least."""
        stored, begin = self.stored[first:last], self.begin[first:last]
        apart = (np.diff(stored) != 0) | (np.diff(begin) != self.lengths[first : last - 1])
        cuts = [0, *(np.flatnonzero(apart) + 1).tolist(), last - first]
        pieces = []
        for one, other in zip(cuts, cuts[1:], strict=False):
            whole, end = self.instances[int(stored[one])], first + other - 1
            pieces.append(whole[int(self.begin[first + one]) : int(self.begin[end] + self.lengths[end])])
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


class Sentences:
    """All sentences of a split, document by document.

    Args:
        source, target: the stored sides; ``target`` None for text without.
        name: of the files, for messages.
        sidecar: which sentences each stored instance holds; None: every stored instance is a document of its own.
        sidecar_name: of its file, for messages.

    Attributes:
        source, target: SideSentences; ``target`` None where there is none.
        document, position: (sentences,) int64, document and place in it, both from 0.

    Raises UserError where source, target and sidecar do not hold the same number of sentences, or one twice.
    """

    def __init__(
        self,
        source: StoredSide,
        target: StoredSide | None,
        name: str,
        sidecar: Sidecar | None = None,
        sidecar_name: Path | None = None,
    ):
        self.source = SideSentences(source)
        self.target = None if target is None else SideSentences(target)
        counts = self.source.counts()
        if self.target is not None:
            self._check_equal(counts, self.target.counts(), name)
        self.document = self.source.stored.copy()
        first = np.cumsum(counts) - counts
        self.position = np.arange(len(self.document)) - first[self.document]
        if sidecar is not None:
            check_places(sidecar, counts, sidecar_name)
            places = np.array(sidecar.instances, dtype=np.int64).reshape(-1, 3)
            self.position += places[self.document, 1]
            self.document = places[self.document, 0]
            self._sort(sidecar_name)

    def _check_equal(self, source: np.ndarray, target: np.ndarray, name: str) -> None:
        unequal = np.flatnonzero(source != target)
        if len(unequal):
            number = int(unequal[0])
            raise UserError(
                f"{name}*: instance {number} has {source[number]} source but {target[number]} target sentences, so its "
                "sentences cannot be grouped anew; leave --instances as stored, or prepare the corpus again"
            )

    def _sort(self, sidecar_name: Path | None) -> None:
        order = np.lexsort((self.position, self.document))
        self.document, self.position = self.document[order], self.position[order]
        for side in filter(None, (self.source, self.target)):
            side.reorder(order)
        twice = np.flatnonzero((np.diff(self.document) == 0) & (np.diff(self.position) == 0))
        if len(twice):
            one = int(twice[0])
            raise UserError(
                f"{sidecar_name}: has sentence {self.position[one]} of document {self.document[one]} twice; prepare "
                "the corpus again"
            )

    def exchange(self, draw: np.random.RandomState) -> None:
        """Let all sentence pairs change places at random, so that what stands around one has nothing to do with it."""
        order = draw.permutation(len(self))
        for side in filter(None, (self.source, self.target)):
            side.reorder(order)

    def __len__(self) -> int:
        return len(self.document)

    def runs(self) -> Ranges:
        """[first, last) sentences that follow each other without a gap; a document that lacks one has several runs."""
        if not len(self):
            return []
        follows = (np.diff(self.document) == 0) & (np.diff(self.position) == 1)
        cuts = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(self)]
        return list(zip(cuts, cuts[1:], strict=False))


def check_places(sidecar: Sidecar, counts: Sequence[int], path: Path | None) -> None:
    """Raise UserError for a sidecar of other instances than those with so many sentences each."""
    sidecar.check_number(len(counts), path)
    for number, ((*_, expected), found) in enumerate(zip(sidecar.instances, counts, strict=True)):
        if expected != found:
            raise UserError(
                f"{path}: instance {number} has {expected} sentences, in the data it has {found}; prepare the corpus "
                "again"
            )


class RunDataset(FairseqDataset):
    """Runs of sentences of one side, read through the view.

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

    def num_tokens(self, index: int) -> int:
        """Tokens of one instance."""
        return int(self.sizes[index])

    def size(self, index: int) -> int:
        """Tokens of one instance."""
        return int(self.sizes[index])

    def longest_sentences(self) -> np.ndarray:
        """(instances,) int64, tokens of the longest sentence of each."""
        lengths = np.append(self.sentences.lengths, 0)  # a range may end behind the last sentence
        return np.maximum.reduceat(lengths, self.ranges.ravel())[::2] if len(self) else lengths[:0]

    @property
    def supports_prefetch(self) -> bool:
        """Whether the layout on disk has to be read ahead."""
        return getattr(self.sentences.instances, "supports_prefetch", False)

    def prefetch(self, indices: Sequence[int]) -> None:
        """Read ahead the stored instances that hold these."""
        ranges = self.ranges[np.asarray(list(indices), dtype=np.int64)]
        wanted = [self.sentences.stored[first:last] for first, last in ranges.tolist()]
        self.sentences.instances.prefetch(np.unique(np.concatenate(wanted)).tolist() if wanted else [])


def tokens_between(lengths: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """(n,) int64 tokens of the sentences [first, last) of ``ranges`` (n, 2), given the (sentences,) lengths of all."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return ends[ranges[:, 1]] - ends[ranges[:, 0]]
