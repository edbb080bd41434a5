"""Packed batches of fixed shapes: all tokens of a side end to end, and their layout as tensors.

Every batch of a training has the same shapes, whatever its documents are. So a model is compiled
once, and nothing is planned while it computes. Data loader workers make these batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PACKED = "packed"  # the field of a batch
SENTENCES, DOCUMENTS = "sentences", "documents"
TOKENS_MULTIPLE = 128  # capacities are rounded up to what matrix products and attention like
LENGTH_MULTIPLE = 64
COUNT_MULTIPLE = 32  # so that most shards of a corpus need no graph of their own


@dataclass(frozen=True)
class Capacity:
    """What a packed batch has room for.

    Attributes:
        tokens: of each side, padding included.
        sentences, documents: how many there may be, without padding.
        longest_sentence, longest_document: most tokens of one.
    """

    tokens: int
    sentences: int
    documents: int
    longest_sentence: int
    longest_document: int

    @property
    def pieces(self) -> int:
        """The most segments that padding is cut into, none longer than a sentence may be."""
        return -(-self.tokens // self.longest_sentence)


def capacity_of(
    batches: Sequence[np.ndarray], sizes: Sequence[np.ndarray], sentences: np.ndarray, longest: int
) -> Capacity:
    """Return the capacity that all batches fit in.

    Args:
        batches: the instances of each.
        sizes: (instances,) int64 for each side, tokens.
        sentences: (instances,) int64, the sentences of the side with more of them.
        longest: tokens of the longest sentence.
    """
    real = [batch for batch in batches if len(batch)]
    kept = np.concatenate(real)  # others are left out of training
    most = max(int(side[batch].sum()) for batch in real for side in sizes)
    longest = _rounded(longest, LENGTH_MULTIPLE)
    return Capacity(
        # Every piece of padding has a token on both sides, so that no query is without keys.
        tokens=_rounded(most * longest // (longest - 1) + 2, TOKENS_MULTIPLE),
        sentences=_rounded(max(int(sentences[batch].sum()) for batch in real), COUNT_MULTIPLE),
        documents=_rounded(max(map(len, real)), COUNT_MULTIPLE),
        longest_sentence=longest,
        # Padding is cut into segments as long as a sentence, which count as documents, too.
        longest_document=max(
            longest, _rounded(max(int(side[kept].max()) for side in sizes), LENGTH_MULTIPLE)
        ),
    )


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


@dataclass(frozen=True)
class Symbols:
    """What packing has to know of a side.

    Attributes:
        bos, padding: indices of ``<s>`` and of padding.
        drops_bos: whether layers see no ``<s>``; it only counts in the tags.
        restarts: whether positions restart at each sentence.
    """

    bos: int
    padding: int
    drops_bos: bool = False
    restarts: bool = False


class Packer:
    """Makes packed batches.

    Args:
        capacity: of the batches.
        source, target: of the two sides.
    """

    def __init__(self, capacity: Capacity, source: Symbols, target: Symbols):
        self.capacity, self.sides = capacity, (source, target)

    def __call__(
        self, sources: list[Tensor], inputs: list[Tensor], targets: list[Tensor]
    ) -> dict[str, dict]:
        """Pack documents, each (length,) int64 and begun by ``<s>``; ``targets`` fit ``inputs``.

        Returns:
            for ``source`` and ``target`` a dictionary of ``tokens``, ``position``, ``tag`` (N,)
            int64, and of ``bounds`` and ``longest`` by kind of segment (see
            ``modules.segments.Segments``); for ``target`` also ``predicted`` (N,) int64.

        Raises ValueError for more than the capacity.
        """
        sides = [
            _Side(rows, symbols)
            for rows, symbols in zip((sources, inputs), self.sides, strict=True)
        ]
        slots = np.maximum(*(side.sentences for side in sides))
        self._check(slots, sides)
        room = [self.capacity.tokens - len(side.tokens) for side in sides]
        pieces = max(-(-one // self.capacity.longest_sentence) for one in room)
        source, target = (side.packed(self.capacity, slots, pieces) for side in sides)
        target["predicted"] = _filled(
            torch.cat(targets).numpy(), self.capacity.tokens, self.sides[1].padding
        )
        return {"source": source, "target": target}

    def _check(self, slots: np.ndarray, sides: list[_Side]) -> None:
        """Raise ValueError for what does not fit; all batches were checked when they were made."""
        capacity, longest = self.capacity, max(int(side.lengths.max()) for side in sides)
        tokens = max(len(side.tokens) for side in sides) + capacity.pieces
        fits = (
            tokens <= capacity.tokens
            and slots.sum() <= capacity.sentences
            and len(slots) <= capacity.documents
            and longest <= capacity.longest_document
        )
        if not fits:
            raise ValueError(
                f"a batch of {len(slots)} documents, {slots.sum()} sentences and {tokens} tokens "
                f"does not fit {capacity}"
            )


class _Side:
    """One side's documents, end to end; arrays on the host."""

    def __init__(self, rows: list[Tensor], symbols: Symbols):
        self.symbols = symbols
        lengths = np.array(list(map(len, rows)), dtype=np.int64)
        self.tokens = torch.cat(rows).numpy()
        begins = self.tokens == symbols.bos
        document = np.repeat(np.arange(len(rows)), lengths)
        self.sentences = np.bincount(document[begins], minlength=len(rows))  # of each document
        before = np.cumsum(self.sentences) - self.sentences
        tag = np.cumsum(begins) - before[document]
        if symbols.drops_bos:
            self.tokens, document, tag = (one[~begins] for one in (self.tokens, document, tag))
        self.document, self.tag = document, tag
        self.lengths = np.bincount(document, minlength=len(rows))

    def packed(self, capacity: Capacity, slots: np.ndarray, pieces: int) -> dict:
        """Return the tensors; ``slots`` (documents,): sentences that both sides have room for."""
        first = np.cumsum(slots) - slots
        sentence = first[self.document] + self.tag - 1
        lengths = {
            SENTENCES: np.bincount(sentence, minlength=slots.sum()),
            DOCUMENTS: self.lengths,
        }
        most = {SENTENCES: capacity.sentences, DOCUMENTS: capacity.documents}
        padding = np.full(pieces, (capacity.tokens - len(self.tokens)) // max(pieces, 1))
        padding[: capacity.tokens - len(self.tokens) - padding.sum()] += 1
        bounds = {
            kind: _bounds(np.concatenate([own, padding]), most[kind] + capacity.pieces)
            for kind, own in lengths.items()
        }
        own = lengths[SENTENCES if self.symbols.restarts else DOCUMENTS]
        position = np.arange(len(self.tokens)) - np.repeat(np.cumsum(own) - own, own)
        return {
            "tokens": _filled(self.tokens, capacity.tokens, self.symbols.padding),
            "position": _filled(position, capacity.tokens, 0),
            "tag": _filled(self.tag, capacity.tokens, 1),
            "bounds": bounds,
            "longest": {
                SENTENCES: capacity.longest_sentence,
                DOCUMENTS: capacity.longest_document,
            },
        }


def _bounds(lengths: np.ndarray, most: int) -> Tensor:
    """Return (most + 1,) int32, where segments begin; the end is repeated for missing ones."""
    bounds = np.full(most + 1, lengths.sum(), dtype=np.int32)
    bounds[0] = 0
    bounds[1 : len(lengths) + 1] = np.cumsum(lengths)
    return torch.from_numpy(bounds)


def _filled(values: np.ndarray, length: int, value: int) -> Tensor:
    """Return (length,) int64: the values, then ``value``."""
    filled = np.full(length, value, dtype=np.int64)
    filled[: len(values)] = values
    return torch.from_numpy(filled)
