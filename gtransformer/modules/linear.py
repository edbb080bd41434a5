"""Linear layers in float32 on the CPU by the library that is fastest there.

PyTorch gives float32 products to MKL, which does not use AVX-512 on AMD's processors; oneDNN, which PyTorch brings as
well and uses for bfloat16, does. It was faster on a Zen 5 and gained nothing on a Zen 4 (docs/performance.md).
Both compute in float32 throughout; their sums differ in the last bits, because they add in another order.

``GTRANSFORMER_ONEDNN=0`` or ``1`` in the environment overrides the choice.
"""

from __future__ import annotations

import os
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from gtransformer.modules.processor import processor_fields
from gtransformer.modules.row_pieces import goes_in_pieces, linear_in_pieces

FEW_ROWS = 64  # oneDNN lays packed weights out for about so many rows


@cache
def onednn_is_faster() -> bool:
    """Whether float32 products should go to oneDNN on this machine."""
    wish = os.environ.get("GTRANSFORMER_ONEDNN", "")
    if wish not in ("", "0", "1"):
        raise ValueError(f"GTRANSFORMER_ONEDNN={wish}: must be 0 or 1")
    if wish == "0" or not onednn_is_there():
        return False
    return wish == "1" or (torch.backends.cpu.get_cpu_capability().startswith("AVX512") and _vendor() == "AuthenticAMD")


def onednn_is_there() -> bool:
    """Whether this PyTorch offers oneDNN's linear layer."""
    return (
        torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )


def _vendor() -> str:
    return processor_fields().get("vendor_id", "")


def goes_to_onednn(x: Tensor) -> bool:
    """Whether products with this operand are oneDNN's: float32 on the CPU, not in autocast, not empty."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and onednn_is_faster()
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (N, in) times weight (out, in) transposed, plus bias (out,) -> (N, out). Has no gradient of its own."""
    if goes_to_onednn(x):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return functional.linear(x, weight, bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx, grad: Tensor):
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            product(grad, weight.t()) if for_x else None,
            product(grad.t(), x.t()) if for_weight else None,
            grad.sum(dim=0) if for_bias else None,
        )


class Linear(nn.Linear):
    """torch.nn.Linear, same parameters and result, on the CPU by the faster library or in pieces of few shapes."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        if goes_to_onednn(x):
            apply = _Linear.apply
        elif goes_in_pieces(x):
            apply = linear_in_pieces
        else:
            return functional.linear(x, self.weight, self.bias)
        return apply(x.reshape(-1, x.shape[-1]), self.weight, self.bias).view(*x.shape[:-1], -1)


class PackedLinear:
    """Linear layers that read the same input, as one product for few rows, where reading the weights decides.

    The weights, which must not change while it is in use, are taken in the type that products are to have and on the
    CPU in oneDNN's own layout; results come in the type of the input. For decoding: it has no gradient.

    Args:
        modules: one or more linear layers with one input.
        dtype: type of the products; default that of the weights.
    """

    def __init__(self, *modules: nn.Linear, dtype: torch.dtype | None = None):
        weight, bias = modules[0].weight.detach(), modules[0].bias
        if len(modules) > 1:
            weight = torch.cat([module.weight.detach() for module in modules])
            bias = None if bias is None else torch.cat([module.bias.detach() for module in modules])
        self.dtype = dtype or weight.dtype
        self.weight = weight.to(self.dtype)
        self.bias = None if bias is None else bias.detach().to(self.dtype)
        self.packed = _is_packable(self.weight)
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, FEW_ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        """x (rows, in) -> (rows, sum of the layers' out)."""
        h = x.to(self.dtype)
        if self.packed:
            return torch.ops.mkldnn._linear_pointwise(h, self.weight, self.bias, "none", [], "").to(x.dtype)
        return functional.linear(h, self.weight, self.bias).to(x.dtype)


def _is_packable(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not onednn_is_there():
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 and onednn_is_faster()


@cache
def has_bfloat16() -> bool:
    """Whether the processor multiplies matrices in bfloat16 by instructions of its own (AVX512-BF16 or AMX; Linux)."""
    return _has_flag("avx512_bf16") or _has_flag("amx_bf16")


@cache
def trains_faster_in_bfloat16() -> bool:
    """Whether small models are trained in less time so: by AMX, or AVX512-BF16 of AMD, but not Intel's alone.

    On an Intel machine without AMX a step took 1.4 to 1.5 times as long as in float32 (docs/performance.md).
    """
    return _has_flag("amx_bf16") or (_has_flag("avx512_bf16") and _vendor() == "AuthenticAMD")


def _has_flag(name: str) -> bool:
    return name in processor_fields().get("flags", "").split()
