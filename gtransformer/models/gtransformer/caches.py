"""What decoding remembers of the target: keys and values that are never moved when beam search reorders its rows.

Rows are hypotheses; the ``beam`` rows of one document stand together as a group. All rows write a step's keys and
values into the same slot and leave them there. Which of them belong to a row's own prefix is said by one small table
of ancestors for all layers: when rows change places, only that table does. What all beams of a group agree on moves to
a trunk that the group keeps once.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

FIRST_CAPACITY = 64
TRUNK_BLOCK = 16  # tokens that beams must share before they move to the trunk; also how often that is looked at


class History:
    """Who wrote what a row may see: bookkeeping on the host, the same for all layers.

    ``ancestor`` (groups, beam, capacity): the beam that wrote a slot of this row's prefix. ``sentence`` (groups, beam):
    slot in which the row's current sentence begins. ``trunk_end`` (groups,): first slot of the document that is not in
    the trunk; ``trunk_length`` (groups,): tokens there.

    Args:
        groups, beam: number of documents and of rows for each.
        local: whether group attention starts anew at ``<s>``.
        document: whether some attention sees the whole prefix.
    """

    def __init__(self, groups: int, beam: int, local: bool, document: bool):
        self.local, self.document = local, document
        self.ancestor = np.zeros((groups, beam, FIRST_CAPACITY), dtype=np.int64)
        self.sentence = np.zeros((groups, beam), dtype=np.int64)
        self.trunk_end = np.zeros(groups, dtype=np.int64)
        self.trunk_length = np.zeros(groups, dtype=np.int64)
        self.steps = np.zeros(groups, dtype=np.int64)  # tokens taken in of each document
        self.slots = 0  # slots in use
        self.clock = 0
        self.dropped = 0  # slots dropped by the newest step

    @property
    def capacity(self) -> int:
        """Slots there are."""
        return self.ancestor.shape[2]

    def advance(self, opens: np.ndarray) -> None:
        """One more token in every row: take a slot for it. ``opens`` (groups, beam): it is ``<s>``."""
        self.dropped = 0
        if self.slots == self.capacity:
            self._make_room()
        slot, self.slots = self.slots, self.slots + 1
        self.ancestor[:, :, slot] = np.arange(self.ancestor.shape[1])
        self.sentence[opens | (self.steps == 0)[:, None]] = slot
        self.trunk_end[self.steps == 0] = slot
        self.steps += 1
        self.clock += 1

    def _make_room(self) -> None:
        """Drop the slots that no row sees any more, or double the number of slots if too few can go."""
        oldest = self.slots
        if self.local and self.sentence.size:
            oldest = min(oldest, int(self.sentence.min()))
        if self.document and self.trunk_end.size:
            oldest = min(oldest, int(self.trunk_end.min()))
        if oldest >= self.capacity // 2:
            self.dropped = oldest
            self.ancestor = np.roll(self.ancestor, -oldest, axis=2)
            self.sentence = np.maximum(self.sentence - oldest, 0)
            self.trunk_end = np.maximum(self.trunk_end - oldest, 0)
            self.slots -= oldest
        else:
            self.ancestor = np.concatenate([self.ancestor, np.zeros_like(self.ancestor)], axis=2)

    def view(self, starts: np.ndarray) -> tuple[int, np.ndarray]:
        """Slots from the first one that any row sees, and (groups, beam, slots, beam) bool, who sees whose.

        ``starts`` (groups, beam or 1): first slot that a row sees.
        """
        first = int(starts.min())
        mine = self.ancestor[:, :, first : self.slots, None] == np.arange(self.ancestor.shape[1])
        return first, mine & (np.arange(first, self.slots) >= starts[..., None])[..., None]

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        """New group g goes on with old group ``groups[g]``, its row b with that group's old row ``beams[g, b]``."""
        self.ancestor = self.ancestor[groups[:, None], beams]
        self.sentence = self.sentence[groups[:, None], beams]
        self.trunk_end, self.trunk_length = self.trunk_end[groups], self.trunk_length[groups]
        self.steps = self.steps[groups]

    def restart(self, group: int) -> None:
        """A new document takes the place of a finished one."""
        self.steps[group] = self.trunk_length[group] = 0
        # Where it will begin; older slots are not kept for it.
        self.sentence[group] = self.trunk_end[group] = self.slots

    def agreed(self) -> list[tuple[int, int, int, np.ndarray]]:
        """(group, first slot, trunk length before, ancestors) of what moves to the trunk now; notes it as moved."""
        if not self.document or self.clock % TRUNK_BLOCK:
            return []
        same = (self.ancestor[:, :, : self.slots] == self.ancestor[:, :1, : self.slots]).all(axis=1)
        moves = []
        for group, start in enumerate(self.trunk_end.tolist()):
            differs = np.flatnonzero(~same[group, start:])
            run = int(differs[0]) if len(differs) else self.slots - start
            if run >= TRUNK_BLOCK:
                length = int(self.trunk_length[group])
                moves.append((group, start, length, self.ancestor[group, 0, start : start + run].copy()))
                self.trunk_end[group] += run
                self.trunk_length[group] += run
        return moves


class SlotCache:
    """Keys and values of one attention, (groups, heads, capacity, beam, dim): step by step, all beams of a step."""

    def __init__(self):
        self.sides: list[Tensor] | None = None

    def write(self, new: list[Tensor], history: History, beam: int) -> None:
        """Store keys and values (rows, heads, dim) of the newest token."""
        grouped = [side.unflatten(0, (-1, beam)).transpose(1, 2) for side in new]  # (groups, heads, beam, dim)
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
            beams = torch.from_numpy(ancestors).to(slots.device)
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


def visible_to_score(visible: np.ndarray, device: torch.device, dtype: torch.dtype) -> Tensor | None:
    """0 where a key is visible, minus infinity elsewhere; None where all are."""
    if visible.all():
        return None
    score = np.where(visible, np.float32(0), np.float32(-np.inf))
    return torch.from_numpy(score).to(device=device, dtype=dtype)


def attend(q: Tensor, keys: list[Tensor], values: list[Tensor], masks: list[Tensor | None]) -> Tensor:
    """Softmax attention of few queries over keys that lie in several places.

    Args:
        q: (groups, heads, beam, dim); keys, values: (groups, heads, n_i, dim) each; masks: added to the scores,
            (groups, 1, beam or 1, n_i), at least one key is visible.

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
