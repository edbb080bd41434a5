"""Linear layers in bfloat16 on the CPU, with their rows in pieces of few sizes.

oneDNN compiles a kernel for every new shape of a product, for some milliseconds on one core, and keeps a thousand.
Batches without padding have another number of tokens each, so most products had to wait for theirs. Here the rows are
cut into a multiple of ``BLOCK`` and the rest, padded to a multiple of ``GRAIN``: a product with up to 4,096 rows has
one of two dozen shapes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

BLOCK, GRAIN = 512, 32


def goes_in_pieces(x: Tensor) -> bool:
    """Whether a linear layer is to take x (..., in) so: rows enough, on the CPU, in autocast to bfloat16."""
    return (
        x.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
        and x.dtype != torch.float64  # which autocast leaves alone
        and x.numel() >= BLOCK * x.shape[-1]
    )


def linear_in_pieces(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (N, in) times weight (out, in) transposed, plus bias (out,) -> (N, out), bfloat16; gradients in their types."""
    return _Linear.apply(x, weight, bias)


def padded(x: Tensor, grain: int = GRAIN) -> Tensor:
    """x (N, n) with rows of zeros behind, up to a multiple of ``grain``."""
    missing = -len(x) % grain
    return functional.pad(x, (0, 0, 0, missing)) if missing else x


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        for_x, for_weight, _ = ctx.needs_input_grad
        ctx.types = [None if one is None else one.dtype for one in (x, weight, bias)]
        x, weight, bias = (None if one is None else one.to(torch.bfloat16) for one in (x, weight, bias))
        ctx.save_for_backward(x if for_weight else None, weight if for_x else None)
        return _times(x, weight.t(), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            _times(grad, weight).to(ctx.types[0]) if for_x else None,
            _summed(grad, x).to(ctx.types[1]) if for_weight else None,
            grad.sum(dim=0).to(ctx.types[2]) if for_bias else None,
        )


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """The first rows, a multiple of ``BLOCK``, and the rest, padded."""
    most = len(x) - len(x) % BLOCK
    return x[:most], padded(x[most:])


def _times(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (N, in) times matrix (in, out), plus bias (out,)."""
    result = x.new_empty(len(x), matrix.shape[1])
    first, rest = _split(x)
    if len(first):
        _product(first, matrix, bias, result[: len(first)])
    if len(rest):
        behind = rest.new_empty(len(rest), matrix.shape[1])
        _product(rest, matrix, bias, behind)
        result[len(first) :] = behind[: len(x) - len(first)]
    return result


def _product(x: Tensor, matrix: Tensor, bias: Tensor | None, result: Tensor) -> None:
    torch.mm(x, matrix, out=result) if bias is None else torch.addmm(bias, x, matrix, out=result)


def _summed(a: Tensor, b: Tensor) -> Tensor:
    """a (N, m) transposed times b (N, n) -> (m, n), float32 where it is a sum of two, so that it is rounded no more."""
    parts = [one.t() @ other for one, other in zip(_split(a), _split(b), strict=True) if len(one)]
    return parts[0] if len(parts) == 1 else parts[0].float().add_(parts[1])
