"""One kernel for all segments of a batch: PyTorch's attention over sequences of unequal length, on
CUDA.

It takes tokens end to end and the begin of each segment, which is the ragged layout itself: no
padding, no bucket, no mask. It supports only float16 and bfloat16, without dropout; ``packed``
computes everything else in buckets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from gtransformer.modules.ragged import on_device


@cache
def kernel() -> Callable | None:
    """Return PyTorch's kernel; None before PyTorch 2.10. Imported late because its module imports
    the compiler.
    """
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn


class VarlenSegments:
    """The segments of a ``PackedPattern``, all EVERY_KEY or all CAUSAL_KEYS, in the kernel's
    format.

    Tokens that are in order already are not gathered.
    """

    def __init__(self, pattern, causal: bool):
        queries_total, keys_total, device = (
            pattern.queries.total,
            pattern.keys.total,
            pattern.queries.device,
        )
        query_start, query_length, key_start, key_length = pattern.segments.T
        # The kernel wants tokens of a segment next to each other. Group attention over a document
        # in which a sentence's tokens are scattered needs a gather; all else is in order already.
        queries = _indices(pattern.order, query_start, query_length)
        keys = _indices(pattern.reach.order, key_start, key_length)
        # A query in no segment reads a row of zeros.
        position = np.full(queries_total, len(queries))
        position[queries] = np.arange(len(queries))
        self.query, self.key, self.position = (
            None if np.array_equal(index, np.arange(number)) else on_device(index, device)
            for index, number in (
                (queries, queries_total),
                (keys, keys_total),
                (position, queries_total),
            )
        )
        # int32 is what the kernel reads.
        self.bounds = [
            on_device(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), device)
            for lengths in (query_length, key_length)
        ]
        self.longest = int(query_length.max(initial=0)), int(key_length.max(initial=0))
        # (left, right); -1 is no limit. Zero to the right is a causal mask.
        self.window = (-1, 0) if causal else (-1, -1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim)."""
        gathered = [
            side if index is None else side.index_select(0, index)
            for side, index in ((q, self.query), (k, self.key), (v, self.key))
        ]
        found = kernel()(*gathered, *self.bounds, *self.longest, window_size=self.window).flatten(1)
        if self.position is None:
            return found
        # Queries that see no key are in no segment; attention over nothing is zero.
        return torch.cat([found, found.new_zeros(1, found.shape[1])]).index_select(0, self.position)


def _indices(order: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return order[start[0] : start[0] + length[0]], order[start[1] : ...], ... end to end."""
    ends = np.cumsum(length)
    return order[np.arange(length.sum()) + np.repeat(start - (ends - length), length)]


def is_usable(q: Tensor, dropout: float) -> bool:
    """Return whether the kernel supports these queries on a GPU (Ampere or newer)."""
    return (
        q.dtype in (torch.float16, torch.bfloat16)
        and dropout == 0.0
        # FlashAttention's own limits on the size of a head.
        and q.shape[-1] % 8 == 0
        and q.shape[-1] <= 256
        and kernel() is not None
        and torch.cuda.get_device_capability(q.device) >= (8, 0)
    )
