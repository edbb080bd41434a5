"""One kernel for all segments of a batch: PyTorch's attention over sequences of unequal length, on
CUDA.

It takes tokens end to end and the begin of each segment, which is the ragged layout itself: no
padding, no bucket, no mask. It supports only float16 and bfloat16, without dropout; ``packed``
computes everything else in buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# Whether the kernel has a window, which also makes it causal. Compared once: it takes long.
HAS_WINDOW = torch.__version__ >= (2, 11)


def kernel() -> Callable:
    """Return PyTorch's kernel. Imported late because its module imports the compiler."""
    from torch.nn.attention.varlen import varlen_attn

    return varlen_attn


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bounds: Sequence[Tensor],
    longest: Sequence[int],
    causal: bool,
) -> Tensor:
    """Attend within segments: q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads * dim).

    Args:
        bounds: (segments + 1,) int32, where the segments of queries and of keys begin; the last
            ends with the tokens.
        longest: at least the most queries and keys of a segment.
        causal: no query sees later keys.
    """
    # (left, right); -1 is no limit. Zero to the right is a causal mask.
    window = (-1, 0) if causal else (-1, -1)
    return kernel()(q, k, v, *bounds, *longest, window_size=window).flatten(1)


def is_usable(q: Tensor, dropout: float) -> bool:
    """Return whether the kernel supports these queries on a GPU (Ampere or newer)."""
    return (
        q.dtype in (torch.float16, torch.bfloat16)
        and dropout == 0.0
        # FlashAttention's own limits on the size of a head.
        and q.shape[-1] % 8 == 0
        and q.shape[-1] <= 256
        and HAS_WINDOW
        and torch.cuda.get_device_capability(q.device) >= (8, 0)
    )
