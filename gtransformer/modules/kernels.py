"""The operations under all modules: PyTorch's, and on the CPU those that are faster there (``cpu/``).

This is the one place where models and engines meet what the CPU does otherwise. ``Linear`` is ``torch.nn.Linear``,
``dropout`` and ``embed_words`` are PyTorch's by the same names, ``product`` is a linear layer without gradient, and
``PackedLinear`` what decoding makes of several of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.modules.cpu.layers import (  # noqa: F401
    GRAIN,
    LARGE_VOCABULARY,
    Linear,
    PackedLinear,
    dropout,
    embed_words,
    padded,
    product,
)

# On the CPU, PyTorch's fused kernel is slower than plain products for short keys, and in bfloat16 its backward pass is
# slower for documents, too (docs/performance.md); beyond these lengths memory decides for the fused one.
PLAIN_UP_TO = {torch.float32: 16, torch.bfloat16: 1024}
CACHED_ELEMENTS = 1 << 18  # 1 MiB in float32 stays in a CPU's cache


def compiles_shapes(device: torch.device) -> bool:
    """Whether products in bfloat16 compile a kernel for every new shape there (oneDNN), so that few are better."""
    return device.type == "cpu"


def rows_at_once(x: Tensor) -> int:
    """How many rows of x (rows, columns) to put through several passes at a time: on the CPU what its cache holds."""
    return max(1, CACHED_ELEMENTS // x.shape[1]) if x.device.type == "cpu" else len(x)


def segment_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    drop: float,
    bias: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Attention of independent segments, by the kernel that is fastest for their length.

    Args:
        q, k, v: (segments, length, heads, dim).
        mask: bool, broadcastable to (segments, 1, Lq, Lk), True at visible keys, at least one a query.
        drop: probability of dropping a weight.
        bias: of q / sqrt(dim), (segments, heads, Lq, dim), makes (segments, heads, Lq, Lk), which is added to q . k /
            sqrt(dim).

    Returns:
        (segments, Lq, heads, dim).
    """
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    longest = PLAIN_UP_TO.get(q.dtype, 0) if q.device.type == "cpu" else 0
    if bias is None and k.shape[2] > longest:
        return functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=drop, is_causal=causal
        ).transpose(1, 2)
    # No derivative needs the scores themselves, so all that is done to them can be done in place.
    q = q * (1.0 / math.sqrt(q.shape[-1]))
    scores = torch.matmul(q, k.transpose(2, 3))
    if bias is not None:  # two roundings already, so in half precision the sum and its softmax are float32's
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).add_(bias(q))
    if causal:
        future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill_(future, -torch.inf)
    elif mask is not None:
        scores = scores.masked_fill_(~mask, -torch.inf)
    weights = functional.dropout(torch.softmax(scores, dim=-1), drop).to(v.dtype)
    return torch.matmul(weights, v).transpose(1, 2)
