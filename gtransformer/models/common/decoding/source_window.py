"""Which part of a memory (the source, say) the rows of a beam look at: all of a document, or the sentence at hand."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch

from gtransformer.models.common.blocks import BySentence, Scope
from gtransformer.models.common.decoding.around_source import AroundSource
from gtransformer.models.common.decoding.history import visible_to_score
from gtransformer.models.common.memory import Memory
from gtransformer.models.common.windows import AlignedWindow
from gtransformer.modules.ragged import Ragged, on_device

ROUND = 8  # windows are as wide as a multiple of this


class SourceSpans:
    """Where each sentence of each document lies among the source tokens sorted by (document, tag).

    ``sort`` (N,) int64; starts and lengths (documents, sentences + 2): column k is sentence k, of length 0 where there
    is none; the last column is always empty, and so is the first, since tags count from 1.
    """

    def __init__(self, layout: Ragged):
        order = np.argsort((layout.doc.astype(np.int64) << 32) + layout.tag, kind="stable")
        doc, tag = layout.doc[order], layout.tag[order]
        shape = layout.batch, int(tag.max(initial=0)) + 2
        starts = np.repeat(layout.doc_starts[:-1, None], shape[1], axis=1)
        lengths = np.zeros(shape, dtype=np.int64)
        np.add.at(lengths, (doc, tag), 1)
        backwards = np.arange(len(order))[::-1]  # the first token of a sentence is written last
        starts[doc[backwards], tag[backwards]] = backwards
        self.total = len(order)
        self.sort = torch.from_numpy(order)
        self.starts, self.lengths = starts, lengths

    def lookup(self, documents: np.ndarray, tags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Start and length of the keys that each row sees; documents and tags are of one shape."""
        tags = np.minimum(tags, self.starts.shape[1] - 1)
        return self.starts[documents, tags], self.lengths[documents, tags]


class SourceWindow:
    """For each group, the stretch of the source that covers the sentences its rows are at; the same for all layers.

    After ``advance``: ``changed``, the groups whose stretch is another one, with ``index`` (changed, width) into the
    sorted source tokens; ``mask`` (groups, 1, beam, width) or None; ``blind`` (groups, beam) bool, True where a row
    sees nothing, or None.
    """

    def __init__(self, spans: SourceSpans, documents: np.ndarray, device: torch.device):
        self.spans, self.device = spans, device
        self.pick(documents)

    def pick(self, documents: np.ndarray) -> None:
        """These documents go on; all windows are read anew."""
        self.documents = documents
        self.first = np.full(len(documents), -1)
        self.width = 0

    def advance(self, tags: np.ndarray) -> None:
        """``tags`` (groups, beam): the sentence that each row is at."""
        documents = np.broadcast_to(self.documents[:, None], tags.shape)
        start, length = self.spans.lookup(documents, tags)
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
            index = np.minimum(column[changed], self.spans.total - 1)
            self.index = on_device(index, self.device)
        seen = (column[:, None] >= start[..., None]) & (column[:, None] < (start + length)[..., None])
        blind = length == 0
        seen[blind] = True  # what comes of it is thrown away
        self.mask = visible_to_score(seen[:, None], self.device, torch.float32)
        self.blind = on_device(blind, self.device) if blind.any() else None


class SourceSide:
    """A memory as the rows see it, the same for all layers.

    ``mask`` (groups, 1, 1, longest document) says where a group's document ends, None where all are equally long;
    ``window`` is the stretch by sentence, None if no attention looks by sentence; ``around`` are the windows around an
    aligned place, by scope.

    Args:
        memory: states and layout.
        documents: (groups,) the document that each group reads.
        beam: rows of a group.
        scopes: at which attention looks at the memory.
    """

    def __init__(self, memory: Memory, documents: np.ndarray, beam: int, scopes: Collection[Scope]):
        self.memory, self.documents = memory, documents
        self.device = memory.states.device
        by_sentence = BySentence() in scopes
        self.window = SourceWindow(SourceSpans(memory.layout), documents, self.device) if by_sentence else None
        aligned = [scope for scope in scopes if isinstance(scope, AlignedWindow)]
        self.around = {scope: AroundSource(scope, memory.layout, documents, beam) for scope in aligned}
        self._measure()

    def advance(self, opens: np.ndarray, tags: np.ndarray, position: np.ndarray) -> None:
        """The next token of every row.

        Args:
            opens: (groups, beam) bool, whether it is ``<s>``; tags: (groups, beam), the sentence that it is in.
            position: (groups,) its place in the document, from 0.
        """
        if self.window is not None:
            self.window.advance(tags)
        for around in self.around.values():
            around.advance(opens, tags, position)

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        """New group g goes on with old group ``groups[g]``, its row b with that group's old row ``beams[g, b]``."""
        for around in self.around.values():
            around.reorder(groups, beams)

    def pick(self, documents: np.ndarray) -> None:
        """These documents go on."""
        self.documents = documents
        if self.window is not None:
            self.window.pick(documents)
        self._measure()

    def replace(self, group: int, document: int) -> None:
        """Let a group read another document."""
        self.documents = self.documents.copy()
        self.documents[group] = document
        if self.window is not None:
            self.window.documents = self.documents
            self.window.first[group] = -1
        for around in self.around.values():
            around.replace(group, document)
        self._measure()

    def _measure(self) -> None:
        lengths = self.memory.layout.doc_lengths
        real = np.arange(lengths.max(initial=0)) < lengths[self.documents][:, None]
        self.mask = visible_to_score(real[:, None, None], self.device, self.memory.states.dtype)
