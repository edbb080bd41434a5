"""Attention of the newest tokens of all hypotheses to cached keys and values.

This module has self-attention, whose keys are the target prefix (history.py tells what each hypothesis sees of it).
Attention to a memory is in cached_memory.py.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.common.decoding.history import FIRST_CAPACITY, ForcedPrefixes, History, Masks, SharedRows
from gtransformer.modules.ragged import on_device
from gtransformer.modules.relative import clipped_distance


class CachedAttention:
    """One attention of a layer in decoding; by default, its methods do nothing when hypotheses change."""

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        """Attend with q (documents, heads, beam, dim) of the newest tokens; the result has the shape of q.

        ``new``: their keys and values (hypotheses, heads, dim), to be cached; empty for attention to a memory.
        """
        raise NotImplementedError

    def force(self, new: list[Tensor], forced_prefixes: ForcedPrefixes) -> None:
        """Cache the keys and values (N, heads, dim) of the forced prefixes."""

    def promote(self, moves: list) -> None:
        """Move tokens that hypotheses share to the shared prefix; ``moves`` are ``History.agreed``'s."""

    def select(self, groups: Tensor) -> None:
        """Keep only these groups."""


class CachedPrefix(CachedAttention):
    """Keys and values, (documents, heads, capacity, beam, dim): slot by slot, all hypotheses of a slot."""

    def __init__(self):
        self.sides: list[Tensor] | None = None

    def write(self, new: list[Tensor], history: History) -> None:
        """Store keys and values (hypotheses, heads, dim) of the newest token."""
        # (documents, heads, beam, dim)
        grouped = [side.unflatten(0, (-1, history.beam)).transpose(1, 2) for side in new]
        if self.sides is None:
            shape = (*grouped[0].shape[:2], history.capacity, *grouped[0].shape[2:])
            self.sides = [side.new_empty(shape) for side in grouped]  # all slots that are read are written before
        if history.dropped:
            remaining = self.sides[0].shape[2] - history.dropped
            for side in self.sides:
                side[:, :, :remaining] = side[:, :, history.dropped :].clone()
        if self.sides[0].shape[2] < history.capacity:
            self.sides = [widened(side, history.capacity) for side in self.sides]
        for side, value in zip(self.sides, grouped, strict=True):
            side[:, :, history.slots - 1] = value

    def read(self, first: int, history: History) -> list[Tensor]:
        """Return keys and values from slot ``first`` on, (documents, heads, slots * beam, dim)."""
        return [side[:, :, first : history.slots].flatten(2, 3) for side in self.sides]

    def force(self, new: list[Tensor], forced_prefixes: ForcedPrefixes) -> None:
        """Store the prefix tokens that later tokens see, each once for all hypotheses."""
        history = forced_prefixes.history
        if len(forced_prefixes.slot):
            groups, beam = history.ancestor.shape[:2]
            shape = groups, new[0].shape[1], history.capacity, beam, new[0].shape[2]
            self.sides = [side.new_zeros(shape) for side in new]
            for side, value in zip(self.sides, new, strict=True):
                side[forced_prefixes.group, :, forced_prefixes.slot, 0] = value.index_select(0, forced_prefixes.token)

    def select(self, groups: Tensor) -> None:
        if self.sides is not None:
            self.sides = [side.index_select(0, groups) for side in self.sides]


class CachedSentences(CachedPrefix):
    """Self-attention to the last ``number`` sentences of the prefix."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        self.write(new, masks.history)
        first, mask = masks.sentences[self.number]
        keys, values = self.read(first, masks.history)
        return attend(q, [keys], [values], [mask])


class CachedTokens(CachedPrefix):
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
            # Keys are ordered by slot, then hypothesis; all queries are at the newest slot.
            slots = torch.arange(first, history.slots, device=q.device).repeat_interleave(history.beam)
            newest = torch.full((1,), history.slots - 1, device=q.device)
            rows = clipped_distance(newest, slots, self.relative)[0]
            scores = torch.matmul(q, self.relative.to(q.dtype).t()).index_select(-1, rows) / math.sqrt(q.shape[-1])
            mask = scores if mask is None else scores + mask
        return attend(q, [keys], [values], [mask])


class CachedDocument(CachedPrefix):
    """Self-attention to the whole prefix: the part that hypotheses share, once for all, and after it the slots.

    ``shared``: keys and values (documents, heads, capacity, dim). Groups that are sentences of one document read its
    row together (``History.sharers``).
    """

    def __init__(self):
        super().__init__()
        self.shared: list[Tensor] | None = None
        self.sharing: History | None = None  # if groups share rows

    def attend(self, q: Tensor, new: list[Tensor], masks: Masks) -> Tensor:
        self.write(new, masks.history)
        keys, values = self.read(masks.tail_first, masks.history)
        if not masks.shared_width:
            return attend(q, [keys], [values], [masks.tail])
        shared_keys, shared_values = (side[:, :, : masks.shared_width] for side in self.shared)
        parts = [shared_keys, keys], [shared_values, values], [masks.shared, masks.tail]
        return attend(q, *parts, [masks.rows, None])

    def force(self, new: list[Tensor], forced_prefixes: ForcedPrefixes) -> None:
        history, longest = forced_prefixes.history, forced_prefixes.layout.length
        self.sharing = None if history.sharers is None else history
        number = len(history.steps) if self.sharing is None else len(forced_prefixes.documents)
        self.shared = [side.new_zeros(number, side.shape[1], longest, side.shape[2]) for side in new]
        for shared, value in zip(self.shared, new, strict=True):
            shared[forced_prefixes.rows] = forced_prefixes.layout.pad(value).transpose(1, 2)

    def promote(self, moves: list[tuple[int, int, int, np.ndarray]]) -> None:
        needed = max(length + len(ancestors) for _, _, length, ancestors in moves)
        if self.shared is None:
            groups, heads, _, _, dim = self.sides[0].shape
            self.shared = [side.new_zeros(groups, heads, FIRST_CAPACITY, dim) for side in self.sides]
        if self.shared[0].shape[2] < needed:
            self.shared = [widened(side, max(needed, 2 * side.shape[2])) for side in self.shared]
        for group, start, length, ancestors in moves:
            slots = torch.arange(start, start + len(ancestors), device=self.shared[0].device)
            beams = on_device(ancestors, slots.device)
            for shared, side in zip(self.shared, self.sides, strict=True):
                shared[group, :, length : length + len(ancestors)] = side[group][:, slots, beams]

    def select(self, groups: Tensor) -> None:
        super().select(groups)
        if self.sharing is not None:
            groups = on_device(self.sharing.shared_rows, groups.device)
        if self.shared is not None:
            self.shared = [side.index_select(0, groups) for side in self.shared]


def widened(cache: Tensor, capacity: int) -> Tensor:
    """Return a cache (documents, heads, old capacity, ...) of larger capacity, filled up with zeros."""
    wide = cache.new_zeros(*cache.shape[:2], capacity, *cache.shape[3:])
    wide[:, :, : cache.shape[2]] = cache
    return wide


def attend(
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    masks: list[Tensor | None],
    rows: list[SharedRows | None] | None = None,
) -> Tensor:
    """Attend with few queries over keys in several tensors.

    Args:
        q: (documents, heads, beam, dim); keys, values: (documents, heads, n_i, dim) each; masks: added to the scores,
            (documents, 1 or heads, beam or 1, n_i), at least one key is visible.
        rows: for each, which documents read the same keys and values, (rows, heads, n_i, dim); None: each its own.

    Returns:
        (documents, heads, beam, dim).
    """
    q = q * (1.0 / math.sqrt(q.shape[-1]))
    rows = rows or [None] * len(keys)
    scores = [_product(q, side.transpose(2, 3), own) for side, own in zip(keys, rows, strict=True)]
    scores = [score if mask is None else score.add_(mask) for score, mask in zip(scores, masks, strict=True)]
    exact = torch.float64 if q.dtype == torch.float64 else torch.float32
    joined = scores[0] if len(scores) == 1 else torch.cat(scores, dim=-1)
    weights = torch.softmax(joined, dim=-1, dtype=exact).to(q.dtype)
    if len(keys) == 1:
        return _product(weights, values[0], rows[0])
    parts = weights.split([side.shape[2] for side in keys], dim=-1)
    output = _product(parts[0], values[0], rows[0])
    for part, value, own in zip(parts[1:], values[1:], rows[1:], strict=True):
        output = output + _product(part, value, own)
    return output


def _product(x: Tensor, matrix: Tensor, rows: SharedRows | None) -> Tensor:
    return torch.matmul(x, matrix) if rows is None else rows.scatter(torch.matmul(rows.gather(x), matrix))
