"""Keys and values that decoding keeps of the target, and attention over them; see history.py for what a row sees."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.common.decoding.forced import Forced
from gtransformer.models.common.decoding.history import FIRST_CAPACITY, History
from gtransformer.modules.ragged import on_device


class SlotCache:
    """Keys and values of one attention, (groups, heads, capacity, beam, dim): step by step, all beams of a step."""

    def __init__(self):
        self.sides: list[Tensor] | None = None

    def write(self, new: list[Tensor], history: History) -> None:
        """Store keys and values (rows, heads, dim) of the newest token."""
        # (groups, heads, beam, dim)
        grouped = [side.unflatten(0, (-1, history.beam)).transpose(1, 2) for side in new]
        if self.sides is None:
            shape = (*grouped[0].shape[:2], history.capacity, *grouped[0].shape[2:])
            self.sides = [side.new_zeros(shape) for side in grouped]
        if history.dropped:
            kept = self.sides[0].shape[2] - history.dropped
            for side in self.sides:
                side[:, :, :kept] = side[:, :, history.dropped :].clone()
        if self.sides[0].shape[2] < history.capacity:
            self.sides = [widened(side, history.capacity) for side in self.sides]
        for side, value in zip(self.sides, grouped, strict=True):
            side[:, :, history.slots - 1] = value

    def force(self, new: list[Tensor], forced: Forced) -> None:
        """Store keys and values (N, heads, dim) of the forced tokens in reach, each once for all beams."""
        history = forced.history
        if len(forced.slot):
            groups, beam = history.ancestor.shape[:2]
            shape = groups, new[0].shape[1], history.capacity, beam, new[0].shape[2]
            self.sides = [side.new_zeros(shape) for side in new]
            for side, value in zip(self.sides, new, strict=True):
                side[forced.group, :, forced.slot, 0] = value.index_select(0, forced.token)

    def read(self, first: int, history: History) -> list[Tensor]:
        """Keys and values from slot ``first`` on, (groups, heads, slots * beam, dim)."""
        return [side[:, :, first : history.slots].flatten(2, 3) for side in self.sides]

    def pick(self, groups: Tensor) -> None:
        """Only these groups go on."""
        if self.sides is not None:
            self.sides = [side.index_select(0, groups) for side in self.sides]


class DocumentCache(SlotCache):
    """A SlotCache with a trunk, (groups, heads, capacity, dim) keys and values of what all beams of a group share."""

    def __init__(self):
        super().__init__()
        self.trunk: list[Tensor] | None = None

    def force(self, new: list[Tensor], forced: Forced) -> None:
        """Store keys and values (N, heads, dim) of the forced tokens in the trunk."""
        self.trunk = [
            side.new_zeros(len(forced.history.steps), *side.shape[1:2], forced.layout.length, side.shape[2])
            for side in new
        ]
        for trunk, value in zip(self.trunk, new, strict=True):
            trunk[forced.groups] = forced.layout.pad(value).transpose(1, 2)

    def absorb(self, moves: list[tuple[int, int, int, np.ndarray]]) -> None:
        """Copy what beams agree on from the slots to the trunk."""
        needed = max(length + len(ancestors) for _, _, length, ancestors in moves)
        if self.trunk is None:
            groups, heads, _, _, dim = self.sides[0].shape
            self.trunk = [side.new_zeros(groups, heads, FIRST_CAPACITY, dim) for side in self.sides]
        if self.trunk[0].shape[2] < needed:
            self.trunk = [widened(side, max(needed, 2 * side.shape[2])) for side in self.trunk]
        for group, start, length, ancestors in moves:
            slots = torch.arange(start, start + len(ancestors), device=self.trunk[0].device)
            beams = on_device(ancestors, slots.device)
            for trunk, side in zip(self.trunk, self.sides, strict=True):
                trunk[group, :, length : length + len(ancestors)] = side[group][:, slots, beams]

    def read_trunk(self, length: int) -> list[Tensor]:
        """Keys and values of the trunk, (groups, heads, length, dim)."""
        return [side[:, :, :length] for side in self.trunk]

    def pick(self, groups: Tensor) -> None:
        """Only these groups go on."""
        super().pick(groups)
        if self.trunk is not None:
            self.trunk = [side.index_select(0, groups) for side in self.trunk]


def widened(cache: Tensor, capacity: int) -> Tensor:
    """(groups, heads, old capacity, ...) with room for more, zeros behind."""
    wide = cache.new_zeros(*cache.shape[:2], capacity, *cache.shape[3:])
    wide[:, :, : cache.shape[2]] = cache
    return wide


def attend(q: Tensor, keys: list[Tensor], values: list[Tensor], masks: list[Tensor | None]) -> Tensor:
    """Softmax attention of few queries over keys that lie in several places.

    Args:
        q: (groups, heads, beam, dim); keys, values: (groups, heads, n_i, dim) each; masks: added to the scores,
            (groups, 1 or heads, beam or 1, n_i), at least one key is visible.

    Returns:
        (groups, heads, beam, dim).
    """
    q = q * (1.0 / math.sqrt(q.shape[-1]))
    scores = [torch.matmul(q, side.transpose(2, 3)) for side in keys]
    scores = [score if mask is None else score + mask for score, mask in zip(scores, masks, strict=True)]
    exact = torch.float64 if q.dtype == torch.float64 else torch.float32
    joined = scores[0] if len(scores) == 1 else torch.cat(scores, dim=-1)
    weights = torch.softmax(joined, dim=-1, dtype=exact).to(q.dtype)
    parts = weights.split([side.shape[2] for side in keys], dim=-1)
    output = torch.matmul(parts[0], values[0])
    for part, value in zip(parts[1:], values[1:], strict=True):
        output = output + torch.matmul(part, value)
    return output
