"""Keys and values that decoding keeps: those that hypotheses share, and those of each hypothesis's
own tokens.

What a hypothesis sees of either is an interval, of which a scope's ``reach`` says where it begins
and ends.
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
        rows: (units * largest,) int64, the hypothesis at each place of the units, 0 at padding;
            None: units are groups. places: (hypotheses,) int64, the reverse.
        largest, beam: hypotheses of a unit, of a group.
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
        begins: (groups,) int64, the first token that each group reads; its hypotheses may see
            fewer.
        kernels: what decides which kernels a step has.
    """

    def __init__(self, plan: Plan, owner: Hashable, beam: int, dtype: torch.dtype):
        self.plan, self.owner, self.beam, self.dtype = plan, owner, beam, dtype
        self.seen = self.index = None
        self.gathered: dict[MultiheadAttention, Tensor] = {}

    def look(
        self, shared: SharedKeys, first: np.ndarray, last: np.ndarray, modules: Iterable
    ) -> None:
        """Set what is seen of ``shared``; keys and values of the modules are gathered when it
        changes.

        ``first``, ``last``: (hypotheses,) int64; each sees the tokens first to last - 1.
        """
        seen = np.stack([first, last])
        if not np.array_equal(seen, self.seen):
            self.seen = seen
            self._gather(shared, modules)
        self.plan.depends_on(*self.kernels)

    def _gather(self, shared: SharedKeys, modules: Iterable) -> None:
        first, last = self.seen
        self.begins = first.reshape(-1, self.beam).min(axis=1)
        ends = last.reshape(-1, self.beam).max(axis=1)
        # At least one key, which may be seen by nothing.
        width = self.plan.size(max(1, int((ends - self.begins).max())), LEAST)
        starts, unit = np.unique(self.begins, return_inverse=True)
        units = self.plan.size(len(starts))
        starts = np.pad(starts, (0, units - len(starts)), mode="edge")
        index = (starts[:, None] + np.arange(width)).clip(max=int(shared.starts[-1]) - 1)
        if not np.array_equal(index, self.index):
            self.index, rows = index, on_device(index.ravel(), self.plan.device)
            for module in modules:
                sides = shared.sides[module].index_select(1, rows).unflatten(1, index.shape)
                self.gathered[module] = self._kept(module, sides.transpose(2, 3))
        column = (self.begins[:, None] + np.arange(width)).repeat(self.beam, axis=0)
        visible = (column >= first[:, None]) & (column < last[:, None])
        self.rows = self.mask = None
        self.largest = self.beam
        if not np.array_equal(starts, self.begins):
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
            of one kind; groups (kinds,) int64: the group of each after ``add``. Before the first
            token all groups that were one (``CachedState.begin_at``) are of one kind.
        tags: (kinds, tokens) int64, the sentence of each token.
        writers: (hypotheses, room) int16, which hypothesis of the group wrote each token; -1 after
            the last. Where those of two hypotheses are equal, so are their prefixes up to there.
        read: those of the step, on the device.
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
        return self.writers.shape[1] if self.plan.fixed else len(self)

    def column(self, token: int) -> int:
        """Return where the columns of a token begin."""
        return token if token <= self.once else self.once + (token - self.once) * self.beam

    def add(self, tags: np.ndarray) -> None:
        """Add a token to every hypothesis; tags (hypotheses,) int64."""
        token, begin = len(self), self.column(len(self))
        _, chosen, kinds = np.unique((self.kinds << 32) + tags, True, True)
        self.tags = np.column_stack([self.tags[self.kinds[chosen]], tags[chosen]])
        self.groups, self.kinds = chosen // self.beam, kinds
        if token == self.writers.shape[1]:
            more = (0, 0), (0, max(LEAST, token))
            self.writers = np.pad(self.writers, more, constant_values=-1)
        self.writers[:, token] = np.resize(np.arange(self.beam), len(tags))
        self.read = self.plan.put(self.writers[:, : self.end])
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
        # Groups that pad the last one need not be its copies: nothing reads what they find.
        left = np.flatnonzero(groups != np.minimum(np.arange(len(groups)), groups[-1:]))
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
        groups = self.writers[:, : len(self)].reshape(-1, self.beam, len(self))
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
        columns = self.writers[:: self.beam, : len(self)] + np.arange(len(self)) * self.beam
        index = on_device(columns, self.plan.device)[:, None, :, None]
        return sides.take_along_dim(index[None], 3)


class OwnReading(Reading):
    """What hypotheses see of own tokens at one step, for one scope; arguments are those tokens.

    Attributes:
        first, end: the tokens first to end - 1 are read; ``once``: so many of them are stored once.
        begins: (hypotheses, 1) int64, the first token that each hypothesis sees; None: all see all.
    """

    def __init__(self, own: OwnKeys):
        self.own = own

    def look(self, begins: np.ndarray) -> None:
        """Set what is seen: of each hypothesis the tokens from ``begins`` (hypotheses,) int64 on.

        Tokens before the first that is seen are not read. With fixed sizes whole blocks of
        ``LEAST`` tokens are left out, as far as a power of two can be read.
        """
        own, plan = self.own, self.own.plan
        first = int(begins.min())
        if plan.fixed:
            first -= first % LEAST
        number = min(plan.size(len(own) - first, 2 * LEAST), own.end)
        first = min(first, own.end - number)
        some = plan.fixed or int(begins.max()) > first  # may not see all that is read
        self.begins = plan.put(begins[:, None]) if some else None
        self.first, self.end, self.once = first, first + number, max(0, own.once - first)
        self.columns = slice(own.column(first), own.column(first + number))
        plan.depends_on(first, number)

    def prepare(self) -> None:
        own, first, end, self.mask = self.own, self.first, self.end, None
        if self.begins is None and own.beam == 1:
            return
        # What its own writers have not written, a hypothesis does not see.
        writers = own.read[:, first:end]
        if self.begins is not None:
            tokens = torch.arange(first, end, device=writers.device)
            writers = writers.masked_fill(tokens < self.begins, -1)
        hidden = writers.view(-1, 1, own.beam, end - first, 1) != own.each
        once, others = hidden[..., : self.once, 0], hidden[..., self.once :, :].flatten(3)
        hidden = torch.cat([once, others], dim=3) if self.once else others
        self.mask = mask_of(hidden, own.dtype)

    def part(self, sides: Tensor) -> tuple[Reading, Tensor, Tensor]:
        """Return the part that ``attended`` reads; sides (2, groups, heads, columns, dim)."""
        return self, *sides[:, :, :, self.columns]


def mask_of(hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores: minus infinity at hidden keys, 0 at others."""
    mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
    return mask.masked_fill_(hidden, -torch.inf)
