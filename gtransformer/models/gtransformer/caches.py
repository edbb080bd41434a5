"""Key-value caches for decoding, one kind for each reach of attention.

Rows are hypotheses; rows of one document stand together as a group of ``beam`` rows. What a group has in common is kept
once: the source side, and the part of the target on which all its beams agree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from gtransformer.models.gtransformer.incremental import DecoderState

FIRST_CAPACITY = 32
TRUNK_BLOCK = 16  # tokens that beams must share before they move to the trunk


def grow(cache: Tensor | None, like: Tensor, needed: int) -> Tensor:
    """A (rows, heads, capacity, dim) cache with room for ``needed`` positions; the capacity doubles when it is full."""
    if cache is not None and cache.shape[2] >= needed:
        return cache
    capacity = max(FIRST_CAPACITY, 1 << (needed - 1).bit_length())
    grown = like.new_zeros(like.shape[0], like.shape[1], capacity, like.shape[2])
    if cache is not None:
        grown[:, :, : cache.shape[2]] = cache
    return grown


class SentenceCache:
    """Self-attention keys and values of the current sentence."""

    def __init__(self):
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, state: DecoderState) -> Tensor:
        """Store k, v (rows, heads, dim) behind the sentence and let q see all of it; returns (rows, heads * dim)."""
        position, longest, mask = state.sentence_position, state.sentence_length, state.sentence_mask
        self.keys, self.values = grow(self.keys, k, longest), grow(self.values, v, longest)
        rows = torch.arange(k.shape[0], device=k.device)
        self.keys[rows, :, position] = k
        self.values[rows, :, position] = v
        self.length = longest
        keys, values = self.keys[:, :, :longest], self.values[:, :, :longest]
        return functional.scaled_dot_product_attention(q.unsqueeze(2), keys, values, attn_mask=mask).flatten(1)

    def reorder(self, order: Tensor, groups: Tensor | None, absorb: list[int], trunk: Trunk) -> None:
        """Rows picked by ``order``; only the part in use is copied. Groups and trunk do not matter to a sentence."""
        if self.keys is None:
            return
        if len(order) != self.keys.shape[0]:
            self.keys, self.values = self.keys.index_select(0, order), self.values.index_select(0, order)
            return
        used = slice(0, self.length)
        self.keys[:, :, used] = self.keys[:, :, used].index_select(0, order)
        self.values[:, :, used] = self.values[:, :, used].index_select(0, order)


class Trunk:
    """Bookkeeping of the prefix that all beams of a group share, the same for all layers.

    ``lengths[g]`` tokens of group g are in the trunk, the rest (``tail``) is kept for each row. ``ancestor``
    (rows, tail) says which row wrote a position; where all beams of a group name the same one, they agree.
    """

    def __init__(self, rows: int, groups: int, device: torch.device):
        self.device = device
        self.steps = 0
        self.lengths = [0] * groups
        self.ancestor = torch.zeros(rows, 0, dtype=torch.int64)

    @property
    def beam(self) -> int:
        """Rows of a group."""
        return self.ancestor.shape[0] // max(1, len(self.lengths))

    def advance(self) -> None:
        """One more token in every row: work out where it goes and what may be seen."""
        rows, beam = self.ancestor.shape[0], self.beam
        self.steps += 1
        lengths = torch.tensor(self.lengths)
        self.tail = self.steps - lengths  # (groups,) including the new token
        width = int(self.tail.max())
        if self.ancestor.shape[1] < width:
            extra = torch.full((rows, max(FIRST_CAPACITY, self.ancestor.shape[1])), -1)
            self.ancestor = torch.cat([self.ancestor, extra], dim=1)
        position = (self.tail - 1).repeat_interleave(beam)
        self.ancestor[torch.arange(rows), position] = torch.arange(rows)
        self.width, self.trunk_width = width, max(self.lengths)
        self.position = position.to(self.device)
        tail_real = torch.arange(width) < self.tail.unsqueeze(1)
        trunk_real = torch.arange(self.trunk_width) < lengths.unsqueeze(1)
        self.tail_mask = None if tail_real.all() else ~tail_real.repeat_interleave(beam, 0).to(self.device)
        self.trunk_mask = None if trunk_real.all() else ~trunk_real.to(self.device)

    def reorder(self, order: Tensor, groups: list[int]) -> list[int]:
        """Rows picked by ``order`` (on the host), group g continuing old group ``groups[g]``.

        Returns how many tail positions each new group may move to the trunk.
        """
        self.ancestor = self.ancestor.index_select(0, order)
        self.lengths = [self.lengths[group] for group in groups]
        absorb = [0] * len(groups)
        if self.steps % TRUNK_BLOCK == 0:
            agreed = self.ancestor.view(len(groups), self.beam, -1)
            same = (agreed == agreed[:, :1]).all(dim=1).long()
            for group, run in enumerate(same.cumprod(dim=1).sum(dim=1).tolist()):
                run = min(run, self.steps - self.lengths[group])
                absorb[group] = run if run >= TRUNK_BLOCK else 0
                if absorb[group]:
                    rows = slice(group * self.beam, (group + 1) * self.beam)
                    self.ancestor[rows] = self.ancestor[rows].roll(-run, dims=1)
                    self.lengths[group] += run
        return absorb


class DocumentCache:
    """Self-attention keys and values of the whole prefix: a trunk for each group and a tail for each row."""

    def __init__(self):
        self.tail: list[Tensor | None] = [None, None]  # keys, values: (rows, heads, capacity, dim)
        self.trunk: list[Tensor | None] = [None, None]  # keys, values: (groups, heads, capacity, dim)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, state: DecoderState) -> Tensor:
        """Store k, v (rows, heads, dim) behind the prefix and let q see all of it; returns (rows, heads * dim)."""
        trunk = state.trunk
        rows = torch.arange(k.shape[0], device=k.device)
        for side, new in enumerate((k, v)):
            self.tail[side] = grow(self.tail[side], new, trunk.width)
            self.tail[side][rows, :, trunk.position] = new
        tail_keys, tail_values = (tail[:, :, : trunk.width] for tail in self.tail)
        q = q * (1.0 / math.sqrt(q.shape[-1]))
        scores = torch.matmul(q.unsqueeze(2), tail_keys.transpose(2, 3)).squeeze(2)  # (rows, heads, tail)
        if trunk.tail_mask is not None:
            scores = scores.masked_fill(trunk.tail_mask.unsqueeze(1), -torch.inf)
        if trunk.trunk_width == 0:
            weights = torch.softmax(scores, dim=-1, dtype=_exact(q)).to(v.dtype)
            return torch.matmul(weights.unsqueeze(2), tail_values).flatten(1)
        shared = self._shared_scores(q, trunk)
        weights = torch.softmax(torch.cat([shared, scores], dim=-1), dim=-1, dtype=_exact(q)).to(v.dtype)
        own = torch.matmul(weights[..., trunk.trunk_width :].unsqueeze(2), tail_values).squeeze(2)
        grouped = weights[..., : trunk.trunk_width].unflatten(0, (-1, trunk.beam)).transpose(1, 2)
        common = torch.matmul(grouped, self.trunk[1][:, :, : trunk.trunk_width])
        return (own + common.transpose(1, 2).flatten(0, 1)).flatten(1)

    def _shared_scores(self, q: Tensor, trunk: Trunk) -> Tensor:
        keys = self.trunk[0][:, :, : trunk.trunk_width]
        grouped = q.unflatten(0, (-1, trunk.beam)).transpose(1, 2)  # (groups, heads, beam, dim)
        scores = torch.matmul(grouped, keys.transpose(2, 3))
        if trunk.trunk_mask is not None:
            scores = scores.masked_fill(trunk.trunk_mask[:, None, None], -torch.inf)
        return scores.transpose(1, 2).flatten(0, 1)

    def reorder(self, order: Tensor, groups: Tensor | None, absorb: list[int], trunk: Trunk) -> None:
        """Rows picked by ``order``; trunks by ``groups`` (None: as they are); then move ``absorb[g]`` positions."""
        if self.tail[0] is None:
            return
        for side in (0, 1):
            used = self.tail[side][:, :, : trunk.width].index_select(0, order)
            if len(order) != self.tail[side].shape[0]:
                capacity = self.tail[side].shape[2]
                self.tail[side] = functional.pad(used, (0, 0, 0, capacity - trunk.width))
            else:
                self.tail[side][:, :, : trunk.width] = used
            if groups is not None and self.trunk[side] is not None:
                self.trunk[side] = self.trunk[side].index_select(0, groups)
            if any(absorb):
                self._absorb(side, absorb, trunk)

    def _absorb(self, side: int, absorb: list[int], trunk: Trunk) -> None:
        tail, beam = self.tail[side], trunk.beam
        like = tail.new_empty(len(absorb), tail.shape[1], tail.shape[3])
        self.trunk[side] = grow(self.trunk[side], like, max(trunk.lengths))
        for group, run in enumerate(absorb):
            if run:
                rows = slice(group * beam, (group + 1) * beam)
                end = trunk.lengths[group]
                self.trunk[side][group, :, end - run : end] = tail[group * beam, :, :run]
                tail[rows, :, : trunk.width - run] = tail[rows, :, run : trunk.width].clone()


def _exact(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32
