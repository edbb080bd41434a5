"""Keys and values that decoding keeps: those that hypotheses share, and those of each hypothesis's
own tokens.

What a hypothesis sees of either is a row of a matrix ``seen``, computed by asking a scope's
``reach`` for its prefix.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.ragged import ABSENT, Ragged, on_device
from gtransformer.modules.reach import Reach

FIRST_CAPACITY = 32  # own tokens that a new cache has room for
SHARED_BLOCK = 16  # own tokens that hypotheses must have in common before these are stored once


class SharedKeys:
    """Keys and values of tokens that several hypotheses read: a memory's, or those of what
    hypotheses begin with.

    Attributes:
        starts: (documents + 1,) int64, the first token of each document.
        sides: by module keys and values, (2, tokens, heads, dim).
    """

    def __init__(self, starts: np.ndarray):
        self.starts = starts
        self.sides: dict[MultiheadAttention, Tensor] = {}


class SharedReading:
    """What hypotheses see of shared keys at one step, for one scope.

    The ``beam`` hypotheses of a group are adjacent. Groups whose visible keys begin at the same
    token (sentences of one document that see all of it) read these keys together, so that they are
    gathered and read once.
    """

    def __init__(self, beam: int, device: torch.device, dtype: torch.dtype):
        self.beam, self.device, self.dtype = beam, device, dtype
        self.shared = self.seen = self.begins = self.index = None
        self.gathered: dict[MultiheadAttention, Tensor] = {}

    def look(self, shared: SharedKeys, begins: np.ndarray, seen: np.ndarray) -> None:
        """Set what is seen.

        Args:
            shared: the keys, of which those that modules read are gathered once until what is seen
                changes.
            begins: (groups,) int64, the first token of the document that each group reads.
            seen: (hypotheses, columns) bool, whether a hypothesis sees the token at this place of
                its document.
        """
        if shared is not self.shared:
            self.shared, self.seen, self.index = shared, None, None
        if (
            self.seen is not None
            and np.array_equal(seen, self.seen)
            and np.array_equal(begins, self.begins)
        ):
            return
        self.begins, self.seen = begins, seen
        columns = seen.reshape(len(begins), self.beam, -1).any(axis=1)
        self.first = columns.argmax(axis=1)  # of each group
        end = columns.shape[1] - columns[:, ::-1].argmax(axis=1)
        end[~columns.any(axis=1)] = 1  # one key that nothing sees
        width = int((end - self.first).max())
        starts, unit = np.unique(begins + self.first, return_inverse=True)
        index = starts[:, None] + np.arange(width)
        if self.index is None or not np.array_equal(index, self.index):
            self.index, self.gathered = index, {}
        column = self.first[:, None] + np.arange(width)
        self._mask(column.repeat(self.beam, axis=0), unit, len(starts))

    def _mask(self, column: np.ndarray, unit: np.ndarray, units: int) -> None:
        last = self.seen.shape[1] - 1
        visible = np.take_along_axis(self.seen, column.clip(max=last), axis=1) & (column <= last)
        blind = ~visible.any(axis=1)
        visible[blind] = True  # the result is discarded
        self.blind = (
            on_device(blind, self.device).view(-1, 1, self.beam, 1) if blind.any() else None
        )
        self.together = None
        if units < len(unit) or (unit[1:] < unit[:-1]).any():
            self.together = Together(unit.repeat(self.beam), units, self.device)
            visible = visible[self.together.rows]
        visible = visible.reshape(units, 1, -1, column.shape[1])
        self.mask = None if visible.all() else scores_of(visible, self.device, self.dtype)

    def attend(self, module: MultiheadAttention, q: Tensor) -> Tensor:
        """Attend with q (groups, heads, beam, dim), zero where nothing is seen; the result has the
        shape of q.
        """
        keys, values = self.gathered[module] if module in self.gathered else self._gather(module)
        q = q if self.together is None else self.together.by_unit(q)
        found = functional.scaled_dot_product_attention(q, keys, values, attn_mask=self.mask)
        found = found if self.together is None else self.together.by_group(found, self.beam)
        return found if self.blind is None else found.masked_fill(self.blind, 0.0)

    def scores(self, module: MultiheadAttention, q: Tensor) -> Tensor:
        """Return the scores of q (groups, heads, beam, dim), scaled, at the keys read: (groups,
        heads, beam, keys).
        """
        keys, _ = self.gathered[module] if module in self.gathered else self._gather(module)
        q = q if self.together is None else self.together.by_unit(q)
        scores = torch.matmul(q, keys.transpose(2, 3))
        scores = scores if self.mask is None else scores + self.mask
        scores = scores if self.together is None else self.together.by_group(scores, self.beam)
        return scores if self.blind is None else scores.masked_fill(self.blind, -torch.inf)

    def sums(self, module: MultiheadAttention, weights: Tensor) -> Tensor:
        """Add up the values by weights (groups, heads, beam, keys) -> (groups, heads, beam,
        dim).
        """
        _, values = self.gathered[module]  # ``scores`` has gathered them
        if self.together is None:
            return torch.matmul(weights, values)
        return self.together.by_group(
            torch.matmul(self.together.by_unit(weights), values), self.beam
        )

    def _gather(self, module: MultiheadAttention) -> Tensor:
        """Return keys and values by unit, (2, units, heads, keys, dim)."""
        sides = self.shared.sides[module]
        index = on_device(self.index.clip(max=sides.shape[1] - 1).ravel(), self.device)
        sides = sides.index_select(1, index).unflatten(1, self.index.shape)
        self.gathered[module] = sides.transpose(2, 3).contiguous()
        return self.gathered[module]


def by_group(x: Tensor, beam: int) -> Tensor:
    """Return x (hypotheses, heads, n) as (groups, heads, beam, n)."""
    return x.view(len(x) // beam, beam, *x.shape[1:]).transpose(1, 2)


def by_hypothesis(x: Tensor) -> Tensor:
    """Return x (groups, heads, beam, n) as (hypotheses, heads, n)."""
    return x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3])


class Together:
    """Hypotheses in the order of the units that they belong to, padded to the largest unit.

    Args:
        unit: (hypotheses,) int64, the unit of each.
        units: how many there are.
    """

    def __init__(self, unit: np.ndarray, units: int, device: torch.device):
        counts = np.bincount(unit, minlength=units)
        order = np.argsort(unit, kind="stable")
        within = np.arange(len(unit)) - np.repeat(np.cumsum(counts) - counts, counts)
        place = np.empty_like(order)
        place[order] = unit[order] * counts.max() + within
        self.rows = np.zeros(units * counts.max(), dtype=np.int64)  # hypothesis 0 is the padding
        self.rows[place] = np.arange(len(unit))
        self.index, self.position = on_device(self.rows, device), on_device(place, device)
        self.largest = int(counts.max())

    def by_unit(self, x: Tensor) -> Tensor:
        """Return x (groups, heads, beam, n) as (units, heads, hypotheses of a unit, n)."""
        return by_group(by_hypothesis(x).index_select(0, self.index), self.largest)

    def by_group(self, x: Tensor, beam: int) -> Tensor:
        """Return the reverse of ``by_unit``."""
        return by_group(by_hypothesis(x).index_select(0, self.position), beam)


class OwnKeys:
    """The tokens that hypotheses have read since decoding began, with their keys and values.

    The hypotheses of a group write the keys of a step side by side, where they stay. ``writers``
    tells which of these belong to a hypothesis; when hypotheses change places, only this table
    does.

    Attributes:
        tags: (hypotheses, tokens) int64, the sentence of each token.
        writers: (hypotheses, tokens) int64, which hypothesis of the group wrote it. Where those of
            two hypotheses are equal, so are their prefixes up to there.
        once: so many of the first tokens are stored once, as if hypothesis 0 had written them.
        sides: by module keys and values, (2, groups, heads, capacity, dim): a column for each of
            the tokens stored once, then one of each hypothesis.
    """

    def __init__(self, groups: int, beam: int, device: torch.device):
        self.beam, self.device = beam, device
        self.tags = self.writers = np.zeros((groups * beam, 0), dtype=np.int64)
        self.once = 0
        self.sides: dict[MultiheadAttention, Tensor] = {}

    def __len__(self) -> int:
        return self.tags.shape[1]

    def column(self, token: int) -> int:
        """Return where the columns of a token begin."""
        return token if token <= self.once else self.once + (token - self.once) * self.beam

    def add(self, tags: np.ndarray) -> None:
        """Add a token to every hypothesis; tags (hypotheses,) int64."""
        self.tags = np.column_stack([self.tags, tags])
        self.writers = np.column_stack([self.writers, np.arange(len(tags)) % self.beam])

    def append(self, module: MultiheadAttention, k: Tensor, v: Tensor) -> Tensor:
        """Store keys and values (hypotheses, heads, dim) of the newest token.

        Returns:
            those of all own tokens, (2, groups, heads, columns, dim).
        """
        begin, sides = self.column(len(self) - 1), self.sides.get(module)
        end, (heads, dim) = begin + self.beam, k.shape[1:]
        if sides is None or sides.shape[3] < end:
            wide = k.new_empty(
                2, len(k) // self.beam, heads, max(FIRST_CAPACITY * self.beam, 2 * end), dim
            )
            if sides is not None:
                wide[:, :, :, :begin] = sides[:, :, :, :begin]
            sides = self.sides[module] = wide
        for side, new in zip(sides[:, :, :, begin:end], (k, v), strict=True):
            side.copy_(by_group(new, self.beam))
        return sides[:, :, :, :end]

    def visible(self, first: int, seen: np.ndarray) -> np.ndarray:
        """Return which columns from token ``first`` on each hypothesis sees, (groups, 1, beam,
        columns) bool.

        ``seen`` (hypotheses, tokens) bool: the tokens from ``first`` on that it sees.
        """
        mine = self.writers[:, first:, None] == np.arange(self.beam)
        mine, once = mine & seen[..., None], max(0, self.once - first)
        others = mine[:, once:].reshape(len(mine), -1)
        mine = np.concatenate([mine[:, :once, 0], others], axis=1)
        return mine.reshape(len(seen) // self.beam, 1, self.beam, -1)

    def reorder(self, order: np.ndarray, groups: np.ndarray) -> None:
        """Continue hypothesis ``order[i]`` as hypothesis i; these are of the old groups
        ``groups``.
        """
        if len(order) < len(self.tags):
            self._keep(groups)
        self.writers, self.tags = self.writers[order], self.tags[order]

    def _keep(self, groups: np.ndarray) -> None:
        """Keep these groups; those before the first that leaves are not copied."""
        end, left = self.column(len(self)), np.flatnonzero(groups != np.arange(len(groups)))
        first = int(left[0]) if len(left) else len(groups)
        index = on_device(groups[first:], self.device)
        for module, sides in self.sides.items():
            sides[:, first : len(groups), :, :end] = sides[:, :, :, :end].index_select(1, index)
            self.sides[module] = sides[:, : len(groups)]

    def store_once(self) -> None:
        """Store the first tokens once that all hypotheses of each group have in common, over all
        groups; some more of them pay.
        """
        groups = self.writers.reshape(-1, self.beam, len(self))
        differs = (groups != groups[:, :1]).any(axis=(0, 1))
        agreed, once = int(differs.argmax()) if differs.any() else len(differs), self.once
        if agreed < once + SHARED_BLOCK:
            return
        own = groups[:, 0, once:agreed] + np.arange(agreed - once) * self.beam + once
        others = np.arange(self.column(agreed), self.column(len(self)))
        columns = np.concatenate([own, np.tile(others, (len(groups), 1))], axis=1)
        index = on_device(columns, self.device)[:, None, :, None]
        for sides in self.sides.values():
            sides[:, :, :, once : once + columns.shape[1]] = sides.take_along_dim(index[None], 3)
        self.writers[:, :agreed], self.once = 0, agreed

    def of_first(self, sides: Tensor) -> Tensor:
        """Return the keys and values of each group's first hypothesis, (2, groups, heads, tokens,
        dim); none is stored once.

        ``sides``: of a module.
        """
        columns = self.writers[:: self.beam] + np.arange(len(self)) * self.beam
        index = on_device(columns, self.device)[:, None, :, None]
        return sides.take_along_dim(index[None], 3)


def tags_by_document(layout: Ragged) -> np.ndarray:
    """Return the tags of documents, (documents, longest) int64, with ``ABSENT`` at padding."""
    tags = np.full((layout.batch, int(layout.doc_lengths.max(initial=0))), ABSENT)
    tags[layout.doc, layout.position] = layout.tag
    return tags


def seen_by_newest(reach: Reach, column: np.ndarray, width: int) -> np.ndarray:
    """Return (rows, width) bool: what the last query of each document sees.

    Args:
        reach: of the prefixes; column: (keys,) int64, the place of each key in its row.
    """
    newest = reach.queries.doc_starts[1:] - 1
    first, last = reach.first[newest], reach.last[newest]
    counts = np.maximum(last - first, 0)
    row = np.repeat(np.arange(len(newest)), counts)
    rank = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    seen = np.zeros((len(newest), width), dtype=bool)
    seen[row, column[reach.order[rank]]] = True
    return seen


def scores_of(visible: np.ndarray, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores: 0 at visible keys, minus infinity at others."""
    return on_device(np.where(visible, np.float32(0), np.float32(-np.inf)), device).to(dtype)


def attention_weights(scores: Tensor) -> Tensor:
    """Return the softmax of scores (..., keys), computed at least in float32."""
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(
        scores.dtype
    )


def scaled(q: Tensor) -> Tensor:
    """Return queries (..., dim) divided by the root of their dimension."""
    return q * (1.0 / math.sqrt(q.shape[-1]))
