"""What one attention of a layer sees while decoding, by the scope that the layer declares.

Of the own states (keys are the target prefix): caches filled token by token. Of a memory: keys and values projected
once per document. Each has ``attend(q, new, state)``: q (groups, heads, beam, dim) of the newest tokens, ``new`` their
keys and values (rows, heads, dim) for the caches, nothing for a memory; the result has the shape of q.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.common.blocks import ByDocument, BySentence, Scope
from gtransformer.models.common.decoding.caches import DocumentCache, SlotCache, attend
from gtransformer.models.common.decoding.forced import Forced
from gtransformer.models.common.decoding.history import Masks
from gtransformer.models.common.decoding.source_window import SourceSide
from gtransformer.models.common.windows import AlignedWindow
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.kernels import PackedLinear
from gtransformer.modules.ragged import on_device
from gtransformer.modules.relative import clipped_distance


class Sight:
    """One attention while decoding; what has nothing to do when rows change does nothing."""

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        """See above."""
        raise NotImplementedError

    def force(self, new: list[Tensor], forced: Forced) -> None:
        """Take in the keys and values (N, heads, dim) of what all beams begin with."""

    def absorb(self, moves: list) -> None:
        """Move what beams agree on to the trunk."""

    def pick(self, groups: Tensor) -> None:
        """Only these groups go on."""

    def put(self, group: int, document: int) -> None:
        """Let a group go on with another document."""


class OwnSentences(SlotCache, Sight):
    """Self-attention to the last ``number`` sentences of the prefix: what was before them is not looked at."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        self.write(new, masks.history)
        first, mask = masks.sentences[self.number]
        keys, values = self.read(first, masks.history)
        return attend(q, [keys], [values], [mask])


class OwnDocument(DocumentCache, Sight):
    """Self-attention to the whole prefix: the trunk that all beams share, and behind it the slots."""

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        self.write(new, masks.history)
        keys, values = self.read(masks.tail_first, masks.history)
        if not masks.trunk_width:
            return attend(q, [keys], [values], [masks.tail])
        trunk_keys, trunk_values = self.read_trunk(masks.trunk_width)
        return attend(q, [trunk_keys, keys], [trunk_values, values], [masks.trunk, masks.tail])


class OwnTokens(SlotCache, Sight):
    """Self-attention to the last ``number`` tokens of the prefix, with or without relative positions (2c + 1, dim)."""

    def __init__(self, number: int, relative: Tensor | None):
        super().__init__()
        self.number, self.relative = number, relative

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        history = masks.history
        self.write(new, history)
        first, mask = masks.tokens[self.number]
        keys, values = self.read(first, history)
        if self.relative is not None:
            # Keys lie slot by slot, all beams of a slot together; all queries are at the newest.
            slots = torch.arange(first, history.slots, device=q.device).repeat_interleave(history.beam)
            newest = torch.tensor([history.slots - 1], device=q.device)
            rows = clipped_distance(newest, slots, self.relative)[0]
            scores = torch.matmul(q, self.relative.to(q.dtype).t()).index_select(-1, rows) / math.sqrt(q.shape[-1])
            mask = scores if mask is None else scores + mask
        return attend(q, [keys], [values], [mask])


class SourceSentence(Sight):
    """Attention to the sentence of a memory that each row is at."""

    def __init__(self, module: MultiheadAttention, side: SourceSide):
        self.side = side
        sort = side.window.spans.sort.to(side.device)
        states = side.memory.states.index_select(0, sort)
        self.sides = module.split_parts(PackedLinear(module.k_proj, module.v_proj)(states))
        self.held: list[Tensor] = []

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        window = self.side.window
        groups, width = q.shape[0], window.width
        if not self.held or self.held[0].shape[:3:2] != (groups, width):
            self.held = [side.new_empty(groups, side.shape[1], width, side.shape[2]) for side in self.sides]
        if len(window.changed):
            for held, side in zip(self.held, self.sides, strict=True):
                read = side.index_select(0, window.index.flatten()).unflatten(0, window.index.shape)
                held[window.changed] = read.transpose(1, 2)
        keys, values = self.held
        found = attend(q, [keys], [values], [None if window.mask is None else window.mask.to(q.dtype)])
        return found if window.blind is None else found.masked_fill(window.blind[:, None, :, None], 0.0)

    def pick(self, groups: Tensor) -> None:
        self.held = []  # of another document, the window is read anew when it moves


class SourceDocument(Sight):
    """Attention to a whole document of a memory: keys and values (groups, heads, longest document, dim)."""

    def __init__(self, module: MultiheadAttention, side: SourceSide):
        self.module, self.side = module, side
        self.project = PackedLinear(module.k_proj, module.v_proj)
        states, longest = side.memory.states, int(side.memory.layout.doc_lengths.max())
        dim = module.q_proj.out_features // module.heads
        like = states.new_zeros(len(side.documents), module.heads, longest, dim)
        self.sides = [like, like.clone()]
        self._read(np.arange(len(side.documents)), side.documents)

    def put(self, group: int, document: int) -> None:
        self._read(np.array([group]), np.array([document]))

    def _read(self, groups: np.ndarray, documents: np.ndarray) -> None:
        """Let these groups (n,) look at these documents (n,): one product for all."""
        layout = self.side.memory.layout
        lengths = layout.doc_lengths[documents]
        offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = np.repeat(layout.doc_starts[documents], lengths) + offset, np.repeat(groups, lengths), offset
        tags = layout.tag[places[0]]
        token, group, offset = (on_device(one, self.side.device) for one in places)
        found = self.project(self.side.memory.states.index_select(0, token))
        keys, values = self.module.split_parts(found)
        for held, side in zip(self.sides, (self.module.told_key(keys, tags), values), strict=True):
            held[group, :, offset] = side

    def pick(self, groups: Tensor) -> None:
        self.sides = [side.index_select(0, groups) for side in self.sides]

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        return attend(q, self.sides[:1], self.sides[1:], [self.side.mask])


class SourceAround(Sight):
    """Attention to a window of a memory around the place that each row is aligned with."""

    def __init__(self, module: MultiheadAttention, side: SourceSide, scope: AlignedWindow):
        self.around = side.around[scope]
        self.sides = module.split_parts(PackedLinear(module.k_proj, module.v_proj)(side.memory.states))

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        index, mask = self.around.index, self.around.mask
        rows = q.shape[0] * index.shape[1]  # one a beam, or one a group where all its beams are at the same place
        # (rows, heads, queries, dim)
        asked = q if index.shape[1] == 1 else q.transpose(1, 2).flatten(0, 1).unsqueeze(2)
        keys, values = (
            side.index_select(0, index.flatten()).unflatten(0, (rows, -1)).transpose(1, 2) for side in self.sides
        )
        found = attend(asked, [keys], [values], [mask.to(q.dtype)])
        return found if index.shape[1] == 1 else found.squeeze(2).unflatten(0, (q.shape[0], -1)).transpose(1, 2)


# The scopes of a memory that can be decoded with caches; those of the own states say it (``names_reach``). All others
# go through the whole prefix.
SOURCE = {BySentence: SourceSentence, ByDocument: SourceDocument, AlignedWindow: SourceAround}


def source_sight(scope: Scope, module: MultiheadAttention, side: SourceSide) -> Sight:
    """Attention to a memory with one of these scopes."""
    return SourceAround(module, side, scope) if isinstance(scope, AlignedWindow) else SOURCE[type(scope)](module, side)


def names_reach(scope: Scope, relative: bool) -> bool:
    """Whether a scope says what it sees of the prefix; with relative positions in tokens."""
    return scope.prefix_tokens is not None or (scope.prefix_sentences is not None and not relative)


def own_sight(scope: Scope, module: MultiheadAttention) -> Sight:
    """Self-attention with a scope that names its reach."""
    if scope.prefix_tokens is not None:
        return OwnTokens(scope.prefix_tokens, None if module.relative is None else module.relative().detach())
    return OwnDocument() if scope.prefix_sentences == math.inf else OwnSentences(scope.prefix_sentences)
