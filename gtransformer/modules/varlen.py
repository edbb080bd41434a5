"""One kernel for all segments of a batch: PyTorch's attention over sequences of unequal length, on CUDA.

It takes tokens end to end and where each segment begins, which is the ragged layout itself: no padding, no bucket, no
mask. It knows float16 and bfloat16 only and no dropout; everything else goes through the buckets of ``packed``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.modules.upload import on_device

logger = logging.getLogger(__name__)


@cache
def kernel() -> Callable | None:
    """PyTorch's kernel; None before PyTorch 2.10. Imported when it is wanted: its module imports the compiler."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn


class VarlenSegments:
    """Pairs of query and key segments as the kernel takes them.

    Args:
        query_order, key_order: token indices, segment by segment where segments are slices of them.
        rows: (pairs, 4) query start, query length, key start, key length.
        device: of the tokens.
    """

    def __init__(self, query_order: np.ndarray, key_order: np.ndarray, rows: np.ndarray, device: torch.device):
        self.query_index = _indices(query_order, rows[:, 0], rows[:, 1])
        key_index = _indices(key_order, rows[:, 2], rows[:, 3])
        self.query = on_device(self.query_index, device)
        self.key = on_device(key_index, device)
        self.query_bounds, self.key_bounds = (
            on_device(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), device)
            for lengths in (rows[:, 1], rows[:, 3])
        )
        self.longest = int(rows[:, 1].max(initial=0)), int(rows[:, 3].max(initial=0))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        """q (Nq, heads, dim), k and v (Nk, heads, dim) -> (queries of all segments, heads, dim)."""
        return kernel()(
            q.index_select(0, self.query),
            k.index_select(0, self.key),
            v.index_select(0, self.key),
            self.query_bounds,
            self.key_bounds,
            *self.longest,
            window_size=(-1, 0) if causal else (-1, -1),
        )


def _indices(order: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """order[start[0] : start[0] + length[0]], order[start[1] : ...], ... end to end."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return order[np.arange(total) + np.repeat(start - (ends - length), length)]


def is_usable(q: Tensor, dropout: float) -> bool:
    """Whether the kernel takes these queries, and has been seen to compute what it should on their device."""
    return (
        q.device.type == "cuda"
        and q.dtype in (torch.float16, torch.bfloat16)
        and dropout == 0.0
        and q.shape[-1] % 8 == 0
        and q.shape[-1] <= 256
        and kernel() is not None
        and _works(q.device, q.dtype, q.shape[-1])
    )


@cache
def _works(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    """One small case against scaled_dot_product_attention, forward and backward, once for each device and type.

    Kernels differ between PyTorch versions and cards; where this one fails, the buckets do its work.
    """
    generator = torch.Generator(device).manual_seed(1)
    try:
        with torch.enable_grad(), torch.random.fork_rng([device]):
            results = []
            for fused in (True, False):
                generator.manual_seed(1)
                x = torch.randn(3, 12, 2, dim, device=device, dtype=dtype, generator=generator)
                q, k, v = (part.clone().requires_grad_() for part in x)
                if fused:
                    rows = np.array([[0, 5, 0, 5], [5, 7, 5, 7]])
                    order = np.arange(12)
                    y = VarlenSegments(order, order, rows, device).attend(q, k, v, causal=True)
                else:
                    y = torch.cat([_causal(q[part], k[part], v[part]) for part in (slice(0, 5), slice(5, 12))])
                y.float().square().sum().backward()
                results.append([y.detach(), q.grad, k.grad, v.grad])
        close = all(torch.allclose(a.float(), b.float(), atol=0.05, rtol=0.05) for a, b in zip(*results, strict=True))
    except (RuntimeError, NotImplementedError, TypeError) as error:
        logger.warning(
            "variable-length attention is not usable on %s (%s); segments are attended in buckets", device, error
        )
        return False
    if not close:
        logger.warning(
            "variable-length attention is wrong on %s in %s; segments are attended in buckets", device, dtype
        )
    return close


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (side.transpose(0, 1).unsqueeze(0) for side in (q, k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1)
