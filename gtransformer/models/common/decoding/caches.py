"""Keys and values that decoding keeps: those that hypotheses share, and those of each hypothesis's
own tokens.

What a hypothesis sees of either is a row of a matrix ``seen``, computed by asking a scope's
``reach`` for its prefix.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.models.common.decoding.plan import LEAST, Plan
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.ragged import on_device
from gtransformer.modules.reach import Reach

FUSED = ("cpu",)  # devices on which one kernel attends faster than products; see ``attended``
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


class Reading:
    """How hypotheses read keys: in groups, or in larger units that read the same keys.

    Attributes:
        mask: what is added to scores, 0 at visible keys; None: all are visible.
    """

    mask: Tensor | None = None
    rows: Tensor | None = None

    def prepare(self) -> None:
        """Compute the mask of a step, as ``look`` has planned it."""

    def by_unit(self, x: Tensor) -> Tensor:
        """Return x (groups, heads, beam, n) as (units, heads, hypotheses of a unit, n)."""
        if self.rows is None:
            return x
        return by_group(by_hypothesis(x).index_select(0, self.rows), self.largest)

    def by_group(self, x: Tensor) -> Tensor:
        """Return the reverse of ``by_unit``."""
        if self.rows is None:
            return x
        return by_group(by_hypothesis(x).index_select(0, self.places), self.beam)


def attended(
    q: Tensor, parts: list[tuple[Reading, Tensor, Tensor]], relative: Tensor | None = None
) -> Tensor:
    """Attend with q (groups, heads, beam, dim) to the keys of all parts together -> as q.

    Args:
        parts: how keys are read, and keys and values (units, heads, keys, dim).
        relative: what is added to scores, (groups, heads, beam, keys of all parts).
    """
    if len(parts) == 1 and relative is None and q.device.type in FUSED:
        ((reading, keys, values),) = parts
        x = reading.by_unit(q)
        x = functional.scaled_dot_product_attention(x, keys, values, attn_mask=reading.mask)
        return reading.by_group(x)
    # On a GPU, attention of few queries to many keys is faster as matrix products than by a fused
    # kernel, which has one block of threads for each head.
    # Scaled before the product, which may be too large for float16.
    q, scores = q * q.shape[-1] ** -0.5, []
    for reading, keys, _ in parts:
        found = torch.matmul(reading.by_unit(q), keys.mT)
        scores.append(reading.by_group(found if reading.mask is None else found + reading.mask))
    lengths = [one.shape[-1] for one in scores]
    joined = scores[0] if len(parts) == 1 else torch.cat(scores, dim=-1)
    joined = joined if relative is None else joined + relative
    # In half precision, too, PyTorch's softmax adds up in float32.
    weights = joined.softmax(dim=-1).split(lengths, dim=-1)
    contexts = [
        reading.by_group(torch.matmul(reading.by_unit(one), values))
        for one, (reading, _, values) in zip(weights, parts, strict=True)
    ]
    return sum(contexts[1:], contexts[0])


class SharedReading(Reading):
    """What hypotheses see of shared keys at one step, for one scope.

    The ``beam`` hypotheses of a group are adjacent. Groups whose visible keys begin at the same
    token (sentences of one document that see all of it) read these keys together, so that they are
    gathered and read once.

    Args:
        plan: of the steps.
        owner: under which the plan has memory for gathered keys.
        beam: hypotheses of a group.
        dtype: of keys.

    Attributes:
        first: (groups,) int64, the first token of its document that each group sees.
        kernels: what decides which kernels a step has.
    """

    def __init__(self, plan: Plan, owner: Hashable, beam: int, dtype: torch.dtype):
        self.plan, self.owner, self.beam, self.dtype = plan, owner, beam, dtype
        self.index = None
        self.gathered: dict[MultiheadAttention, Tensor] = {}

    def look(
        self, shared: SharedKeys, begins: np.ndarray, seen: np.ndarray, modules: Iterable
    ) -> None:
        """Set what is seen.

        Args:
            shared: the keys, of which those that modules read are gathered once until what is seen
                changes.
            begins: (groups,) int64, the first token of the document that each group reads.
            seen: (hypotheses, columns) bool, whether a hypothesis sees the token at this place of
                its document.
        """
        columns = seen.reshape(len(begins), self.beam, -1).any(axis=1)
        self.first = columns.argmax(axis=1)
        end = columns.shape[1] - columns[:, ::-1].argmax(axis=1)
        end[~columns.any(axis=1)] = 1  # one key that nothing sees
        width = self.plan.size(int((end - self.first).max()), LEAST)
        starts, unit = np.unique(begins + self.first, return_inverse=True)
        units = self.plan.size(len(starts))
        starts = np.pad(starts, (0, units - len(starts)), mode="edge")
        index = (starts[:, None] + np.arange(width)).clip(max=int(shared.starts[-1]) - 1)
        if not np.array_equal(index, self.index):
            self.index, rows = index, on_device(index.ravel(), self.plan.device)
            for module in modules:
                sides = shared.sides[module].index_select(1, rows).unflatten(1, index.shape)
                self.gathered[module] = self._kept(module, sides.transpose(2, 3))
        column = (self.first[:, None] + np.arange(width)).repeat(self.beam, axis=0)
        visible = np.take_along_axis(np.pad(seen, ((0, 0), (0, width))), column, axis=1)
        self.rows = self.mask = None
        self.largest = self.beam
        if not np.array_equal(starts, begins + self.first):
            visible = visible[self._order(unit.repeat(self.beam), units)]
        if self.plan.fixed or not visible.all():
            hidden = on_device(~visible.reshape(units, 1, -1, width), self.plan.device)
            self.mask = self._kept("mask", mask_of(hidden, self.dtype))
        self.kernels = self.largest, index.shape, self.rows is None

    def _kept(self, name: Hashable, x: Tensor) -> Tensor:
        """Return a copy of x that stays until something else is seen, in the plan's memory."""
        return self.plan.tensor((self.owner, name), x.shape, x.dtype).copy_(x)

    def _order(self, unit: np.ndarray, units: int) -> np.ndarray:
        """Order hypotheses by unit (hypotheses,), padded to the largest unit by hypothesis 0;
        return the order.
        """
        counts = np.bincount(unit, minlength=units)
        self.largest = self.plan.size(int(counts.max()))
        order = np.argsort(unit, kind="stable")
        within = np.arange(len(unit)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = (unit[order] * self.largest + within)[order.argsort()]
        rows = np.zeros(units * self.largest, dtype=np.int64)
        rows[places] = np.arange(len(unit))
        device = self.plan.device
        self.rows = self._kept("rows", on_device(rows, device))
        self.places = self._kept("places", on_device(places, device))
        return rows


def by_group(x: Tensor, beam: int) -> Tensor:
    """Return x (hypotheses, heads, n) as (groups, heads, beam, n)."""
    return x.view(len(x) // beam, beam, *x.shape[1:]).transpose(1, 2)


def by_hypothesis(x: Tensor) -> Tensor:
    """Return x (groups, heads, beam, n) as (hypotheses, heads, n)."""
    return x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3])


class OwnKeys:
    """The tokens that hypotheses have read since decoding began, with their keys and values.

    The hypotheses of a group write the keys of a step side by side, where they stay. ``writers``
    tells which of these belong to a hypothesis; when hypotheses change places, only this table
    does.

    Args:
        plan: of the steps.
        groups, beam: how many groups there are, and hypotheses of each.
        dtype: of keys.

    Attributes:
        kinds: (hypotheses,) int64: hypotheses of a group whose tokens are in the same sentences are
            of one kind; groups (kinds,) int64: the group of each after ``add``.
        tags: (kinds, tokens) int64, the sentence of each token.
        writers: (hypotheses, tokens) int16, which hypothesis of the group wrote it. Where those of
            two hypotheses are equal, so are their prefixes up to there.
        once: so many of the first tokens are stored once, as if hypothesis 0 had written them.
        sides: by module keys and values, (2, groups, heads, capacity, dim): a column for each of
            the tokens stored once, then one of each hypothesis; None before the first token.
    """

    def __init__(self, plan: Plan, groups: int, beam: int, dtype: torch.dtype):
        self.plan, self.beam, self.dtype = plan, beam, dtype
        self.tags = np.zeros((groups, 0), dtype=np.int64)
        self.kinds = np.arange(groups).repeat(beam)
        self.writers = np.zeros((groups * beam, 0), dtype=np.int16)
        self.once = self.capacity = 0
        each = torch.arange(beam, dtype=torch.int16, device=plan.device)
        self.each = plan.tensor("each", (beam,), each.dtype).copy_(each)
        self.sides: dict[MultiheadAttention, Tensor | None] = {}

    def __len__(self) -> int:
        return self.tags.shape[1]

    @property
    def end(self) -> int:
        """Number of tokens that are read; with fixed sizes as many as there is room for."""
        return self.capacity // self.beam if self.plan.fixed else len(self)

    def column(self, token: int) -> int:
        """Return where the columns of a token begin."""
        return token if token <= self.once else self.once + (token - self.once) * self.beam

    def add(self, tags: np.ndarray) -> None:
        """Add a token to every hypothesis; tags (hypotheses,) int64."""
        begin = self.column(len(self))
        _, chosen, kinds = np.unique((self.kinds << 32) + tags, True, True)
        self.tags = np.column_stack([self.tags[self.kinds[chosen]], tags[chosen]])
        self.groups, self.kinds = chosen // self.beam, kinds
        writer = np.resize(np.arange(self.beam, dtype=np.int16), len(tags))
        self.writers = np.column_stack([self.writers, writer])
        if begin + self.beam > self.capacity:
            self.capacity = max(LEAST * self.beam, 2 * begin)
            for module, sides in self.sides.items():
                self.sides[module] = self._wider(module, sides, begin)
        slots = slice(begin, begin + self.beam)
        self.slots = self.plan.put(np.arange(begin, slots.stop)) if self.plan.fixed else slots
        self.plan.depends_on(*(sides.stride() for sides in self.sides.values()))

    def _wider(self, module: MultiheadAttention, sides: Tensor | None, number: int) -> Tensor:
        # A copy: the new memory may be the old.
        stored = sides[:, :, :, :number].clone() if number else None
        shape = 2, len(self.kinds) // self.beam, module.heads, self.capacity, module.dim
        # What is masked is read, too. An earlier search may have left numbers that are not finite.
        wide = self.plan.tensor(module, shape, self.dtype).zero_()
        if number:
            wide[:, :, :, :number] = stored
        return wide

    def append(self, module: MultiheadAttention, k: Tensor, v: Tensor) -> Tensor:
        """Store keys and values (hypotheses, heads, dim) of the newest token.

        Returns:
            those of all own tokens, (2, groups, heads, columns, dim).
        """
        sides = self.sides[module]
        for side, new in zip(sides, (k, v), strict=True):
            side[:, :, self.slots] = by_group(new, self.beam)
        return sides[:, :, :, : self.column(self.end)]

    def reorder(self, order: np.ndarray, groups: np.ndarray) -> None:
        """Continue hypothesis ``order[i]`` as hypothesis i; these are of the old groups
        ``groups``.
        """
        left = np.flatnonzero(groups != np.arange(len(groups)))
        if len(self) and (len(order) < len(self.kinds) or len(left)):
            # Groups before the first that leaves stay where they are. With fixed sizes all move
            # instead: then the layout is that of a search of so few groups from the beginning, and
            # steps that were captured for it can be used.
            moves = self.plan.fixed and len(order) < len(self.kinds)
            first = 0 if moves else int(left[0]) if len(left) else len(groups)
            index, end = on_device(groups[first:], self.plan.device), self.column(len(self))
            for module, sides in self.sides.items():
                kept = sides[:, :, :, :end].index_select(1, index)
                if moves:
                    shape = *kept.shape[:3], *sides.shape[3:]
                    sides = self.plan.tensor(module, shape, self.dtype)
                sides[:, first : len(groups), :, :end] = kept
                self.sides[module] = sides[:, : len(groups)]
        self.writers, self.kinds = self.writers[order], self.kinds[order]

    def store_once(self) -> None:
        """Store the first tokens once that the hypotheses of each group have in common.

        The number is the same for all groups. Below ``SHARED_BLOCK`` more tokens nothing is done,
        since copying costs more than it saves.
        """
        groups = self.writers.reshape(-1, self.beam, len(self))
        differs = (groups != groups[:, :1]).any(axis=(0, 1))
        agreed, once = int(differs.argmax()) if differs.any() else len(differs), self.once
        if agreed < once + SHARED_BLOCK:
            return
        own = groups[:, 0, once:agreed] + np.arange(agreed - once) * self.beam + once
        others = np.arange(self.column(agreed), self.column(len(self)))
        columns = np.concatenate([own, np.tile(others, (len(groups), 1))], axis=1)
        index = on_device(columns, self.plan.device)[:, None, :, None]
        for sides in self.sides.values():
            sides[:, :, :, once : once + columns.shape[1]] = sides.take_along_dim(index[None], 3)
        self.writers[:, :agreed], self.once = 0, agreed

    def of_first(self, sides: Tensor) -> Tensor:
        """Return the keys and values of each group's first hypothesis, (2, groups, heads, tokens,
        dim); none is stored once.

        ``sides``: of a module.
        """
        columns = self.writers[:: self.beam] + np.arange(len(self)) * self.beam
        index = on_device(columns, self.plan.device)[:, None, :, None]
        return sides.take_along_dim(index[None], 3)


class OwnReading(Reading):
    """What hypotheses see of own tokens at one step, for one scope; arguments are those tokens."""

    def __init__(self, own: OwnKeys):
        self.own = own

    def look(self, seen: np.ndarray) -> None:
        """Set what is seen: ``seen`` (hypotheses, tokens) bool.

        Tokens before the first that is seen are not read. With fixed sizes whole blocks of
        ``LEAST`` tokens are left out, as far as a power of two can be read.
        """
        own, plan = self.own, self.own.plan
        first = int(seen.any(axis=0).argmax())
        if plan.fixed:
            first -= first % LEAST
        number = min(plan.size(len(own) - first, 2 * LEAST), own.end)
        first = min(first, own.end - number)
        # What its own writers have not written, a hypothesis does not see.
        writers = np.full((len(seen), number), -1, dtype=np.int16)
        np.copyto(writers[:, : len(own) - first], own.writers[:, first:], where=seen[:, first:])
        self.writers = None
        if plan.fixed or own.beam > 1 or not seen.all():
            self.writers = plan.put(writers)
        self.tokens, self.once = np.arange(first, first + number), max(0, own.once - first)
        self.columns = slice(own.column(first), own.column(first + number))
        plan.depends_on(first)

    def prepare(self) -> None:
        self.mask = None
        if self.writers is not None:
            writers = self.writers.view(-1, 1, self.own.beam, self.writers.shape[1], 1)
            hidden = writers != self.own.each
            once, others = hidden[..., : self.once, 0], hidden[..., self.once :, :].flatten(3)
            hidden = torch.cat([once, others], dim=3) if self.once else others
            self.mask = mask_of(hidden, self.own.dtype)

    def part(self, sides: Tensor) -> tuple[Reading, Tensor, Tensor]:
        """Return the part that ``attended`` reads; sides (2, groups, heads, columns, dim)."""
        return self, *sides[:, :, :, self.columns]


def seen_by(reach: Reach, column: np.ndarray, width: int) -> np.ndarray:
    """Return (queries, width) bool: what each query sees.

    ``column``: (keys,) int64, the place of each key in the row of its document.
    """
    counts = np.maximum(reach.last - reach.first, 0)
    row = np.repeat(np.arange(len(counts)) * width, counts)
    rank = np.arange(counts.sum()) + np.repeat(reach.first - (np.cumsum(counts) - counts), counts)
    seen = np.zeros((len(counts), width), dtype=bool)
    seen.ravel()[row + column[reach.order[rank]]] = True
    return seen


def mask_of(hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores: minus infinity at hidden keys, 0 at others."""
    mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
    return mask.masked_fill_(hidden, -torch.inf)
