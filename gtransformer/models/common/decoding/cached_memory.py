"""Attention of the newest tokens to a memory, such as the source; keys and values are projected once a document.

A ``CachedMemory`` tells what every hypothesis sees now, for one scope and all layers. Each attention module has its own
keys and values (``CachedMemory.attention``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.common.decoding.cached_attention import CachedAttention, attend
from gtransformer.models.common.decoding.history import ForcedPrefixes, Masks, SharedRows, visible_to_score
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.ragged import Memory, on_device

ROUND = 8  # the width that is read of sentences is a multiple of this


class CachedMemory:
    """The part of a memory that hypotheses see at a scope.

    Args:
        scope: the ``blocks.Scope``.
        memory: states and layout.
        documents: (groups,) int64, the memory's document that each group of hypotheses reads.
        beam: hypotheses of a document.
    """

    def __init__(self, scope, memory: Memory, documents: np.ndarray, beam: int):
        self.scope, self.memory, self.documents, self.beam = scope, memory, documents, beam
        self.device = memory.states.device

    def attention(self, module: MultiheadAttention) -> CachedAttention:
        """Return the attention with a module's projections."""
        raise NotImplementedError

    def advance(self, opens: np.ndarray, tags: np.ndarray, position: np.ndarray) -> None:
        """Advance to the next token of every hypothesis.

        Args:
            opens: (groups, beam) bool, whether it is ``<s>``; tags: (groups, beam), the sentence that it is in.
            position: (groups,) its position in the document, from 0.
        """

    def force(self, forced_prefixes: ForcedPrefixes) -> None:
        """Read the forced prefixes."""

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        """Continue with old group ``groups[g]`` as group g, with its hypothesis ``beams[g, b]`` as hypothesis b."""
        self.documents = self.documents[groups]


@dataclass
class NewestTokens:
    """Tokens as queries of ``Scope.reach``, (n,) int64 each: document, sentence, position in the document."""

    doc: np.ndarray
    tag: np.ndarray
    position: np.ndarray
    whole = False

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.doc)


class CachedIntervals(CachedMemory):
    """For rules that depend on a query's own document, sentence and position: applied again to the newest tokens.

    After ``advance``: ``index`` (groups, beam or 1, width) int64 into the memory's tokens, 1 if all hypotheses of every
    group see the same; ``mask`` (groups * (beam or 1), 1, 1, width) is added to scores; ``blind`` (groups, beam or 1)
    bool, True if nothing is seen, or None.
    """

    def advance(self, opens: np.ndarray, tags: np.ndarray, position: np.ndarray) -> None:
        each = [np.repeat(one, self.beam) for one in (self.documents, position)]
        reach = self.scope.reach(NewestTokens(each[0], tags.ravel(), each[1]), self.memory.layout, False)
        first, last = (side.reshape(tags.shape)[..., None] for side in (reach.first, reach.last))
        if (first == first[:, :1]).all() and (last == last[:, :1]).all():
            first, last = first[:, :1], last[:, :1]
        rank = first + np.arange(max(1, int((last - first).max(initial=1))))
        self.look(reach.order[np.minimum(rank, len(reach.order) - 1)], rank < last)

    def look(self, index: np.ndarray, there: np.ndarray) -> None:
        """Select these tokens of the memory where ``there`` is True; both (groups, beam or 1, width)."""
        blind = ~there.any(axis=-1)
        seen = there | blind[..., None]  # the result is discarded
        self.index = on_device(index, self.device)
        scores = visible_to_score(seen.reshape(-1, 1, 1, seen.shape[-1]), self.device, torch.float32)
        self.mask = torch.zeros((), device=self.device) if scores is None else scores
        self.blind = on_device(blind, self.device) if blind.any() else None

    def attention(self, module: MultiheadAttention) -> CachedAttention:
        return _OfIntervals(self, module)


class _OfIntervals(CachedAttention):
    def __init__(self, seen: CachedIntervals, module: MultiheadAttention):
        self.seen = seen
        self.sides = module.keys_and_values(seen.memory.states)

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        index, mask, blind = self.seen.index, self.seen.mask, self.seen.blind
        together = index.shape[1] == 1  # all hypotheses of a document see the same
        batch = q.shape[0] * index.shape[1]
        # (batch, heads, queries, dim)
        queries = q if together else q.transpose(1, 2).flatten(0, 1).unsqueeze(2)
        keys, values = (
            side.index_select(0, index.flatten()).unflatten(0, (batch, -1)).transpose(1, 2) for side in self.sides
        )
        found = attend(queries, [keys], [values], [mask.to(q.dtype)])
        found = found if together else found.squeeze(2).unflatten(0, (q.shape[0], -1)).transpose(1, 2)
        return found if blind is None else found.masked_fill(blind[:, None, :, None], 0.0)


class CachedMemorySentence(CachedMemory):
    """Group attention: for each document, the part of the memory that covers its hypotheses' current sentences.

    ``sort``: the memory's tokens by (document, tag). ``starts`` and ``lengths`` (documents, sentences + 2) of the
    sentences among them: column k is sentence k, of length 0 if there is none. The first and the last column are always
    empty, since tags count from 1. After ``advance``: ``changed``, the groups with another part than before, with
    ``index`` (changed, width) into the sorted tokens; ``mask`` (groups, 1, beam, width) or None; ``blind`` (groups,
    beam) bool, True if a hypothesis sees nothing, or None.
    """

    def __init__(self, scope, memory: Memory, documents: np.ndarray, beam: int):
        super().__init__(scope, memory, documents, beam)
        layout = memory.layout
        order = np.argsort((layout.doc.astype(np.int64) << 32) + layout.tag, kind="stable")
        doc, tag = layout.doc[order], layout.tag[order]
        shape = layout.batch, int(tag.max(initial=0)) + 2
        self.starts = np.repeat(layout.doc_starts[:-1, None], shape[1], axis=1)
        self.lengths = np.zeros(shape, dtype=np.int64)
        np.add.at(self.lengths, (doc, tag), 1)
        backwards = np.arange(len(order))[::-1]  # the first token of a sentence is written last
        self.starts[doc[backwards], tag[backwards]] = backwards
        self.sort = on_device(order, self.device)
        self._reset()

    def _reset(self) -> None:
        self.first, self.width = np.full(len(self.documents), -1), 0

    def advance(self, opens: np.ndarray, tags: np.ndarray, position: np.ndarray) -> None:
        documents = np.broadcast_to(self.documents[:, None], tags.shape)
        tags = np.minimum(tags, self.starts.shape[1] - 1)
        start, length = self.starts[documents, tags], self.lengths[documents, tags]
        first = np.where(length > 0, start, start.max(axis=1, keepdims=True)).min(axis=1)
        needed = max(1, int(((start + length).max(axis=1) - first).max(initial=1)))
        changed = first != self.first
        if not needed <= self.width <= 2 * needed + ROUND:
            self.width = -(-needed // ROUND) * ROUND
            changed[:] = True
        self.first = first
        self.changed = on_device(np.flatnonzero(changed), self.device)
        column = first[:, None] + np.arange(self.width)
        if len(self.changed):
            self.index = on_device(np.minimum(column[changed], len(self.sort) - 1), self.device)
        seen = (column[:, None] >= start[..., None]) & (column[:, None] < (start + length)[..., None])
        blind = length == 0
        seen[blind] = True  # the result is discarded
        self.mask = visible_to_score(seen[:, None], self.device, torch.float32)
        self.blind = on_device(blind, self.device) if blind.any() else None

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        if not same_documents(groups, self.documents):
            super().reorder(groups, beams)
            self._reset()

    def attention(self, module: MultiheadAttention) -> CachedAttention:
        return _OfSentence(self, module)


class _OfSentence(CachedAttention):
    def __init__(self, seen: CachedMemorySentence, module: MultiheadAttention):
        self.seen = seen
        self.sides = module.keys_and_values(seen.memory.states.index_select(0, seen.sort))
        self.held: list[Tensor] = []

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        seen, groups = self.seen, q.shape[0]
        if not self.held or self.held[0].shape[:3:2] != (groups, seen.width):
            self.held = [side.new_empty(groups, side.shape[1], seen.width, side.shape[2]) for side in self.sides]
        if len(seen.changed):
            for held, side in zip(self.held, self.sides, strict=True):
                read = side.index_select(0, seen.index.flatten()).unflatten(0, seen.index.shape)
                held[seen.changed] = read.transpose(1, 2)
        keys, values = self.held
        found = attend(q, [keys], [values], [None if seen.mask is None else seen.mask.to(q.dtype)])
        return found if seen.blind is None else found.masked_fill(seen.blind[:, None, :, None], 0.0)

    def select(self, groups: Tensor) -> None:
        self.held = []  # the parts of other documents are read again


class CachedMemoryDocument(CachedMemory):
    """Global attention: ``mask`` (groups, 1, 1, longest document) ends each document, None if all have equal length.

    Groups that are sentences of one document read its keys together: ``distinct`` lists the documents, ``rows`` are
    their ``SharedRows``, None if each group has its own.
    """

    def __init__(self, scope, memory: Memory, documents: np.ndarray, beam: int):
        super().__init__(scope, memory, documents, beam)
        self.together = len(np.unique(documents)) < len(documents)
        self._measure()

    def _measure(self) -> None:
        self.distinct, self.rows = self.documents, None
        if self.together:
            self.distinct, own = np.unique(self.documents, return_inverse=True)
            self.rows = SharedRows(own, len(self.distinct), self.device)
        lengths = self.memory.layout.doc_lengths
        real = np.arange(lengths.max(initial=0)) < lengths[self.documents][:, None]
        self.mask = visible_to_score(real[:, None, None], self.device, self.memory.states.dtype)

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        if not same_documents(groups, self.documents):
            super().reorder(groups, beams)
            self._measure()

    def attention(self, module: MultiheadAttention) -> CachedAttention:
        return _OfDocument(self, module)


class _OfDocument(CachedAttention):
    """Attention with keys and values (groups, heads, longest document, dim)."""

    def __init__(self, seen: CachedMemoryDocument, module: MultiheadAttention):
        self.seen, self.distinct = seen, seen.distinct
        layout, states = seen.memory.layout, seen.memory.states
        lengths = layout.doc_lengths[self.distinct]
        offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        token = np.repeat(layout.doc_starts[self.distinct], lengths) + offset
        group = np.repeat(np.arange(len(lengths)), lengths)
        tags = layout.tag[token]
        token, group, offset = (on_device(one, seen.device) for one in (token, group, offset))
        keys, values = module.keys_and_values(states.index_select(0, token))  # one product for all
        self.sides = []
        for side in (module.add_sentence_embedding(keys, module.key_numbers, tags), values):
            held = side.new_zeros(len(lengths), module.heads, int(layout.doc_lengths.max()), side.shape[2])
            held[group, :, offset] = side
            self.sides.append(held)

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        return attend(q, self.sides[:1], self.sides[1:], [self.seen.mask], [self.seen.rows])

    def select(self, groups: Tensor) -> None:
        if self.seen.together:
            if len(self.distinct) == len(self.seen.distinct):
                return
            groups = on_device(np.searchsorted(self.distinct, self.seen.distinct), groups.device)
        self.distinct = self.seen.distinct
        self.sides = [side.index_select(0, groups) for side in self.sides]


def same_documents(groups: np.ndarray, documents: np.ndarray) -> bool:
    """Return whether the groups keep their documents and their order."""
    return len(groups) == len(documents) and (groups == np.arange(len(groups))).all()
