"""The packed engine: attention per segment (sentence, document or block), linear in the number of
segments.

A segment is a set of queries whose intervals of keys begin at the same key. Where every query has
an interval of its own, as in window attention, a segment is a block of queries with all keys that
any of them sees. Segments of similar length are padded a little and attended together in one
bucket. No tensor of size length x length of the whole document is made (Bao et al. 2021, section
4.1, "Complexity").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gtransformer.modules import varlen
from gtransformer.modules.ragged import on_device
from gtransformer.modules.reach import Reach
from gtransformer.modules.relative import clipped_distance, relative_scores

SHORTEST_CLASS = 8  # segments up to this length share a bucket
LONG = 128  # above it, length classes are finer, because attention on padding grows quadratically
BLOCK = 64  # queries of a block; smaller ones are slower, and gather keys more often
# queries that share an interval, on average; if intervals overlap, with fewer blocks cost less
FEW = 8
# On the CPU, PyTorch's fused kernel is slower than plain products for short keys, and in bfloat16
# its backward pass is slower for documents, too (docs/performance.md). Above these lengths the
# fused one needs less memory.
PLAIN_UP_TO = {torch.float32: 16, torch.bfloat16: 1024}
# On the CPU, the softmax of rows below a vector's length is slower in bfloat16 than in float32.
SHORT = 32
# What the queries of a segment see: all its keys, query i those up to i (as many queries as keys),
# or an interval.
EVERY_KEY, CAUSAL_KEYS, SOME_KEYS = range(3)


@dataclass
class Bucket:
    """Segments that are attended in one kernel call.

    Attributes:
        queries, keys: (segments, Lq) and (segments, Lk) int64, tokens; padding repeats a real one.
        real: (segments, Lq) bool, False at padding.
        mask: (segments, 1, 1 or Lq, Lk) bool on the device, the keys that queries see; None: all,
            or if ``causal`` query i those up to i.
    """

    queries: np.ndarray
    real: np.ndarray
    keys: np.ndarray
    mask: Tensor | None
    causal: bool

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        drop: float,
        relative: Tensor | None,
        rows: Tensor | None,
    ) -> Tensor:
        """Attend within the segments, by the kernel that is fastest for their length.

        Args:
            q, k, v: (tokens of all segments, heads, dim), gathered.
            drop: probability of dropping a weight.
            relative: (2c + 1, dim), vectors of relative positions; rows: (segments, Lq, Lk) int64,
                that of each pair.

        Returns:
            (queries of all segments, heads * dim).
        """
        heads = q.shape[1:]
        q = q.view(*self.queries.shape, *heads).transpose(1, 2)
        k = k.view(*self.keys.shape, *heads).transpose(1, 2)
        v = v.view(*self.keys.shape, *heads).transpose(1, 2)
        longest = PLAIN_UP_TO.get(q.dtype, 0) if q.device.type == "cpu" else 0
        if relative is None and k.shape[2] > longest:
            context = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=self.mask, dropout_p=drop, is_causal=self.causal
            )
            return context.transpose(1, 2).reshape(-1, heads.numel())
        # No derivative needs the scores themselves, so they are changed in place.
        q = q * (1.0 / math.sqrt(q.shape[-1]))
        scores = torch.matmul(q, k.transpose(2, 3))
        if relative is not None or k.shape[2] < SHORT:
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if relative is not None:  # both terms are rounded: the sum is in float32
            scores += relative_scores(q, relative, rows)
        if self.causal:
            # Not with ``is_causal``, which only the fused kernel has.
            future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill_(future, -torch.inf)
        elif self.mask is not None:
            scores = scores.masked_fill_(~self.mask, -torch.inf)
        weights = functional.dropout(torch.softmax(scores, dim=-1), drop).to(v.dtype)
        return torch.matmul(weights, v).transpose(1, 2).reshape(-1, heads.numel())


class PackedPattern:
    """Who sees whom in one pass over whole documents, computed once for all layers and heads.

    Attributes:
        order: (queries that see a key,) int64, segment by segment.
        segments: (segments, 4) int64: first query in ``order``, number of queries, first key,
            number of keys.
        kinds: (segments,), EVERY_KEY, CAUSAL_KEYS or SOME_KEYS.
        stored: where keys and values are stored by module, for decoding; None: nowhere.
    """

    stored: dict[nn.Module, tuple[Tensor, Tensor]] | None = None

    def __init__(self, reach: Reach):
        self.reach, self.queries, self.keys = reach, reach.queries, reach.keys
        self.rows: dict[int, list[Tensor]] = {}  # by size of the table of relative positions
        # Queries that see no key are in no segment; their result is zero.
        order = np.flatnonzero(reach.last > reach.first)
        if (np.diff(reach.first[order]) < 0).any():
            order = order[np.argsort(reach.first[order], kind="stable")]
        first, last = reach.first[order], reach.last[order]
        # Queries that begin at the same key belong together: a sentence, a document.
        starts = np.flatnonzero(np.diff(first, prepend=-1))
        ends = np.maximum.reduceat(last, starts)
        # Sliding intervals: a segment for each query would gather the same keys many times, so that
        # a block of queries shares the keys that any of them sees, and a mask.
        if (ends[:-1] > first[starts[1:]]).any() and len(order) < FEW * len(starts):
            starts = np.arange(0, len(order), BLOCK)
            ends = np.maximum.reduceat(last, starts)
        lengths = np.diff(starts, append=len(order))
        widths = ends - first[starts]
        self.order = order
        self.segments = np.stack([starts, lengths, first[starts], widths], axis=1)
        segment = np.repeat(np.arange(len(starts)), lengths)
        # The keys of its segment that a query sees.
        self._first, self._last = first - first[starts][segment], last - first[starts][segment]
        # What all queries of a segment see decides whether it needs a mask.
        row = np.arange(len(order)) - starts[segment]
        from_first = self._first == 0
        everything = from_first & (self._last == widths[segment])
        triangle = from_first & (self._last == row + 1) & (lengths == widths)[segment]
        self.kinds = np.full(len(starts), SOME_KEYS)
        self.kinds[np.logical_and.reduceat(everything, starts)] = EVERY_KEY
        self.kinds[np.logical_and.reduceat(triangle, starts)] = CAUSAL_KEYS

    @cached_property
    def buckets(self) -> list[Bucket]:
        """All segments in buckets of similar length."""
        # A few kernel calls on padded buckets cost less than a call for each segment.
        classes = _length_class(self.segments[:, [1, 3]].max(axis=1, initial=0))
        return [
            self._bucket(self.segments[(self.kinds == kind) & (classes == value)], kind)
            for kind, value in sorted(set(zip(self.kinds.tolist(), classes.tolist(), strict=True)))
        ]

    def _bucket(self, segments: np.ndarray, kind: int) -> Bucket:
        """Make the bucket of segments (n, 4) of one kind, padded to the longest of them."""
        start, length, first, width = segments.T
        place, real = _slices(start, length)
        key_place, key_real = _slices(first, width)
        # In a triangle, padding follows every real query and needs no mask.
        seen = None if kind == CAUSAL_KEYS or key_real.all() else key_real[:, None]
        if kind == SOME_KEYS:
            column = np.arange(width.max())
            seen = (self._first[place][:, :, None] <= column) & (
                column < self._last[place][:, :, None]
            )
        mask = None if seen is None else on_device(seen[:, None], self.queries.device)
        return Bucket(self.order[place], real, key_place, mask, kind == CAUSAL_KEYS)

    @cached_property
    def gathered(self) -> tuple[Tensor, Tensor, Tensor]:
        """The queries of all buckets end to end, the same of their keys, and (Nq,) the place of
        each query among the former.
        """
        queries = np.concatenate([bucket.queries.ravel() for bucket in self.buckets])
        keys = np.concatenate([bucket.keys.ravel() for bucket in self.buckets])
        real = np.flatnonzero(np.concatenate([bucket.real.ravel() for bucket in self.buckets]))
        # A query with no key reads a row of zeros, which stands behind all buckets.
        position = np.full(self.queries.total, len(queries))
        position[queries[real]] = real
        device = self.queries.device
        return on_device(queries, device), on_device(keys, device), on_device(position, device)

    @cached_property
    def unpadded(self) -> tuple[list[Tensor], tuple[int, int], bool] | None:
        """Bounds, greatest lengths and causality for ``varlen.attend``.

        None where that cannot express who sees whom, or tokens are not in the order of segments.
        """
        start, length, first, width = self.segments.T
        bounds = np.append(start, self.queries.total), np.append(first, self.keys.total)
        in_order = np.array_equal(self.order, np.arange(self.queries.total)) and np.array_equal(
            bounds[1], np.append(0, np.cumsum(width))
        )
        kinds = {*self.kinds.tolist()}
        if not in_order or kinds not in ({EVERY_KEY}, {CAUSAL_KEYS}):
            return None
        # int32 is what the kernel reads.
        sides = [on_device(side.astype(np.int32), self.queries.device) for side in bounds]
        return sides, (int(length.max()), int(width.max())), kinds == {CAUSAL_KEYS}

    def project(self, module: nn.Module, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """See ``Pattern.project``."""
        q, *sides = module.project(x, memory, self.queries.tag, self.keys.tag)
        if self.stored is not None:
            self.stored[module] = sides
        return q, *sides

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None
    ) -> Tensor:
        """See ``Pattern.attend``."""
        if (
            relative is None
            and q.is_cuda
            and varlen.is_usable(q, dropout)
            and self.unpadded is not None
        ):
            return varlen.attend(q, k, v, *self.unpadded)
        if not self.buckets:
            # Zeros, but with gradients for all inputs: distributed training waits for them.
            return (0.0 * q).flatten(1) + 0.0 * (k.sum() + v.sum())
        rows = [None] * len(self.buckets)
        if relative is not None:
            # Its gradient is a sum over buckets and clipped distances, too long for half precision.
            relative = relative.to(torch.promote_types(relative.dtype, torch.float32))
            rows = self._relative_rows(relative)
        index, key_index, position = self.gathered
        # One gather for all buckets: its backward pass adds up overlapping keys once.
        queries = q.index_select(0, index).split([bucket.queries.size for bucket in self.buckets])
        sizes = [bucket.keys.size for bucket in self.buckets]
        keys = k.index_select(0, key_index).split(sizes)
        values = v.index_select(0, key_index).split(sizes)
        outputs = []
        for bucket, *sides, distances in zip(
            self.buckets, queries, keys, values, rows, strict=True
        ):
            outputs.append(bucket.attend(*sides, dropout, relative, distances))
        # The row of queries without a key.
        outputs.append(outputs[0].new_zeros(1, outputs[0].shape[1]))
        return torch.cat(outputs).index_select(0, position)

    def _relative_rows(self, table: Tensor) -> list[Tensor]:
        """Return the table row of each pair of a bucket, (segments, Lq, Lk) int64."""
        if len(table) not in self.rows:
            self.rows[len(table)] = [
                clipped_distance(
                    on_device(self.queries.position[bucket.queries], table.device),
                    on_device(self.keys.position[bucket.keys], table.device),
                    table,
                )
                for bucket in self.buckets
            ]
        return self.rows[len(table)]


def _slices(start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (segments, longest): the numbers from ``start`` on, padded by the first; and which are
    real.
    """
    column = np.arange(length.max())
    real = column < length[:, None]
    return start[:, None] + np.where(real, column, 0), real


def _length_class(lengths: np.ndarray) -> np.ndarray:
    """Return length classes, which grow by 1.5, long ones by 1.1; a class is padded to its longest
    segment.
    """
    lengths = np.maximum(lengths, SHORTEST_CLASS)
    short = np.ceil(np.log(lengths / SHORTEST_CLASS) / math.log(1.5) - 1e-9)
    long = 1000 + np.ceil(np.log(lengths / LONG) / math.log(1.1) - 1e-9)
    return np.where(lengths > LONG, long, short).astype(np.int64)
