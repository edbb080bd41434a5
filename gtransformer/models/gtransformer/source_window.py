"""The source side while decoding: projected once per document, shared by its beams, read sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.gtransformer.caches import attend, visible_to_score
from gtransformer.models.gtransformer.encoder import Memory
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.linear import PackedLinear
from gtransformer.modules.ragged import Ragged

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
    sorted source tokens; ``mask`` (groups, 1, beam, width) or None; ``blind`` (rows,) bool, True where a row sees
    nothing, or None.
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
        self.changed = torch.from_numpy(np.flatnonzero(changed)).to(self.device)
        column = first[:, None] + np.arange(self.width)
        if len(self.changed):
            index = np.minimum(column[changed], self.spans.total - 1)
            self.index = torch.from_numpy(index).to(self.device)
        seen = (column[:, None] >= start[..., None]) & (column[:, None] < (start + length)[..., None])
        blind = length == 0
        seen[blind] = True  # what comes of it is thrown away
        self.mask = visible_to_score(seen[:, None], self.device, torch.float32)
        self.blind = torch.from_numpy(blind.ravel()).to(self.device) if blind.any() else None


def heads(module: MultiheadAttention, packed: Tensor) -> list[Tensor]:
    """(n, parts * channels) -> a list of (n, heads, dim)."""
    channels = module.q_proj.out_features
    return [module.split(part) for part in packed.split(channels, dim=-1)]


class LocalSource:
    """Keys and values of one layer's group cross-attention."""

    def __init__(self, module: MultiheadAttention, memory: Memory, sort: Tensor):
        states = memory.states.index_select(0, sort.to(memory.states.device))
        self.sides = heads(module, PackedLinear(module.k_proj, module.v_proj)(states))
        self.window: list[Tensor] = []

    def attend(self, q: Tensor, window: SourceWindow) -> Tensor:
        """q (groups, heads, beam, dim) -> the same shape."""
        groups, width = q.shape[0], window.width
        if not self.window or self.window[0].shape[:3:2] != (groups, width):
            self.window = [side.new_empty(groups, side.shape[1], width, side.shape[2]) for side in self.sides]
        if len(window.changed):
            for held, side in zip(self.window, self.sides, strict=True):
                read = side.index_select(0, window.index.flatten()).unflatten(0, window.index.shape)
                held[window.changed] = read.transpose(1, 2)
        keys, values = self.window
        return attend(q, [keys], [values], [None if window.mask is None else window.mask.to(q.dtype)])


class GlobalSource:
    """Keys and values of one layer's global cross-attention, (groups, heads, longest document, dim)."""

    def __init__(self, module: MultiheadAttention, memory: Memory, documents: Sequence[int]):
        self.module, self.memory = module, memory
        self.project = PackedLinear(module.k_proj, module.v_proj)
        longest = int(memory.layout.doc_lengths.max())
        like = memory.states.new_zeros(
            len(documents), module.heads, longest, module.q_proj.out_features // module.heads
        )
        self.sides = [like, like.clone()]
        for group, document in enumerate(documents):
            self.put(group, document)

    def put(self, group: int, document: int) -> None:
        """Let a group read this document."""
        first, last = self.memory.layout.doc_starts[document : document + 2]
        states = self.memory.states[first:last]
        for held, side in zip(self.sides, heads(self.module, self.project(states)), strict=True):
            held[group, :, : last - first] = side.transpose(0, 1)

    def pick(self, groups: Tensor) -> None:
        """Only these groups go on."""
        self.sides = [side.index_select(0, groups) for side in self.sides]

    def attend(self, q: Tensor, mask: Tensor | None) -> Tensor:
        """q (groups, heads, beam, dim), mask (groups, 1, 1, longest) -> the shape of q."""
        return attend(q, self.sides[:1], self.sides[1:], [mask])
