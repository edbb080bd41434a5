"""Dropout whose random bits are drawn many at a time on the CPU, where drawing them is a tenth of a training step."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

BITS = 16  # random bits for each element: probabilities are met to 2 ** -16


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """x with elements zeroed with probability ``p`` and the others divided by 1 - p, if ``training``."""
    if not training or p <= 0.0 or x.device.type != "cpu" or p >= 1.0:
        return functional.dropout(x, p, training)
    return _Dropout.apply(x, p)


def random_mask(x: Tensor, p: float) -> Tensor:
    """bool, in the shape of x, True with probability ``p``; from PyTorch's generator on the CPU."""
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return (draws.view(torch.int16)[: x.numel()] < round(p * 2**BITS) - 2 ** (BITS - 1)).view(x.shape)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float) -> Tensor:
        kept = random_mask(x, p).logical_not_()
        ctx.save_for_backward(kept)
        ctx.scale = 1.0 / (1.0 - round(p * 2**BITS) / 2**BITS)
        return x.mul(ctx.scale).mul_(kept)  # masked_fill is slower

    @staticmethod
    def backward(ctx, grad: Tensor):
        (kept,) = ctx.saved_tensors
        return grad.mul(ctx.scale).mul_(kept), None
