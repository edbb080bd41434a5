"""Operations that are faster on the CPU than PyTorch's: linear layers, dropout, log probabilities.
Elsewhere they are PyTorch's, but for ``largest``.

Linear layers in float32: PyTorch uses MKL, which does not use AVX-512 on AMD's processors. oneDNN,
which PyTorch includes, does. It was faster on a Zen 5 (docs/performance.md). Sums differ in the
last bits.

In int8, for translation only, a matrix has a scale for each output, an input has one for each of
its rows. So a row's result does not depend on the others.
"""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional

from gtransformer.modules.processor import has_vnni, onednn_is_faster

_onednn = torch.ops.mkldnn._linear_pointwise  # of float32 and bfloat16, without gradient
LARGEST, TINY = 127.0, 1e-30  # of 8-bit integers; the least scale of a row that is not zero
FEW_ROWS = 64  # oneDNN packs weights for about so many rows
# Log probabilities at a time: larger memory would be returned to the system at every step.
SCORED_ELEMENTS = 1 << 22
LARGER_ON_GPU = 8  # so many times as many on a GPU: 128 MiB
SEARCHED = 64  # columns of a block of ``largest``
CACHED_ELEMENTS = 1 << 18  # 1 MiB in float32 stays in a CPU's cache


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Set each element of ``x`` to zero with probability ``p`` (in steps of 2**-16) and divide the
    rest by 1 - p.

    On the CPU PyTorch's own dropout draws one random number for each element and takes three times
    as long.
    """
    if not training:
        return x
    on_cpu = x.device.type == "cpu" and not torch.compiler.is_compiling()
    if not 0 < p < 1 or not on_cpu:
        return functional.dropout(x, p)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    # Four from each word, from -2**15 to 2**15 - 1.
    numbers = words.view(torch.int16)[: x.numel()].view(x.shape)
    # In place: the conversion from bool takes four times as long as that from int16.
    kept = numbers.ge_(round(p * 2**16) - 2**15)
    return x * kept.to(x.dtype).mul_(1 / (1 - p))


def for_products(x: Tensor) -> Tensor:
    """Return x in the type of autocast, which would else convert it for each product that reads
    it. float64 stays.
    """
    device = x.device.type
    if x.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device))


class Linear(nn.Linear):
    """torch.nn.Linear with the same parameters and result; on the CPU by the faster library.

    After ``quantise``, or in a ``decoding_copy``, its ``forward`` is an ``Int8Linear`` or a
    ``PackedLinear``.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer, (..., in) -> (..., out)."""
        if _is_for_onednn(x) and not torch.is_autocast_enabled("cpu"):
            return _ByOneDNN.apply(x, self.weight, self.bias)
        return functional.linear(x, self.weight, self.bias)


class Int8Linear:
    """A linear layer with weights rounded to int8, for float32 inputs on the CPU, by PyTorch's
    FBGEMM.

    Inputs have 8 bits where the processor has AVX512-VNNI, else 7: products are then added up in 16
    bits, where two of 8 bits would overflow.

    It has no gradient.
    """

    def __init__(self, layer: nn.Linear):
        weight, bias = layer.weight.detach(), layer.bias
        # A scale for each output: one large weight must not make all others coarse.
        scale = weight.abs().amax(dim=1).clamp(min=TINY) / LARGEST
        weight = (weight / scale.unsqueeze(1)).round().to(torch.int8)
        self.bias = None if bias is None else bias.detach()
        self.levels = 127 if has_vnni() else 63
        zero = torch.zeros(len(weight), dtype=torch.int64)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*deprecated")
            weight = torch._make_per_channel_quantized_tensor(weight, scale.double(), zero, 0)
        torch.backends.quantized.engine = "fbgemm"  # for all products in 8 bits from now on
        self.packed = torch.ops.quantized.linear_prepack(weight, None)

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the layer, (..., in) -> (..., out)."""
        largest = x.abs().amax(dim=-1, keepdim=True).clamp_(min=TINY)
        # x / largest is between -1 and 1, so the step and the zero point are the same for all rows.
        multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        y = multiply(x / largest, 1 / self.levels, self.levels + 1, self.packed)
        return y.mul_(largest) if self.bias is None else torch.addcmul(self.bias, y, largest)


def quantise(module: nn.Module) -> int:
    """Let all linear layers in a module multiply in int8; return how many there are.

    Their weights leave memory, unless another module has them.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, Linear)]
    for layer in layers:
        layer.forward = Int8Linear(layer)
        # NaN, so that a use of the weights would not go unnoticed. Their shape, type and device
        # remain.
        unusable = layer.weight.new_full((), torch.nan).expand_as(layer.weight)
        layer.weight = nn.Parameter(unusable, requires_grad=False)
    return len(layers)


def decoding_copy(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return a module that shares all parameters, buffers and hooks with ``module``, but multiplies
    without gradient.

    Linear layers multiply as a ``PackedLinear`` in ``dtype``; those with a ``forward`` of their own
    keep it. A module with a method ``join_projections`` may replace products with the same input.
    """
    copies: dict[nn.Module, nn.Module] = {}

    def copied(part: nn.Module) -> nn.Module:
        if part not in copies:
            copies[part] = new = copy.copy(part)
            new._modules = {name: child and copied(child) for name, child in part._modules.items()}
            if getattr(part.forward, "__func__", None) is Linear.forward:
                new.forward = PackedLinear(part, dtype=dtype)
            # After its parts have been replaced.
            if hasattr(new, "join_projections"):
                new.join_projections(dtype)
        return copies[part]

    return copied(module)


class PackedLinear:
    """A linear layer for few rows, where the time to read the weights dominates.

    The weights are stored in the type of the products, on the CPU from the second use on in
    oneDNN's own layout; they must not change while it is in use. Results have the type of the
    products. It is for decoding and has no gradient.

    Args:
        layers: one, or several with the same input, whose results are concatenated.
        dtype: type of the products.
    """

    def __init__(self, *layers: nn.Linear, dtype: torch.dtype):
        weight, bias = layers[0].weight, layers[0].bias
        if len(layers) > 1:
            weight = torch.cat([layer.weight for layer in layers])
            bias = torch.cat([layer.bias for layer in layers])
        self.dtype, weight = dtype, weight.detach().to(dtype)
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.packs = weight.device.type == "cpu" and torch.backends.mkldnn.is_available()
        if self.packs and self.dtype == torch.bfloat16:
            self.packs = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        elif self.packs:
            self.packs = self.dtype == torch.float32 and onednn_is_faster(packed=True)
        self.weight, self.uses = weight, 0

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the layer, x (rows, in) -> (rows, out)."""
        rows = x.to(self.dtype)
        if self.packs and self.uses == 1:  # what projects a memory is used once only
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, FEW_ROWS)
        self.uses += 1
        if self.packs:
            return _onednn(rows, self.weight, self.bias, "none", [], "")
        return functional.linear(rows, self.weight, self.bias)


def _is_for_onednn(x: Tensor) -> bool:
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return False
    return x.dtype == torch.float32 and x.numel() > 0 and onednn_is_faster()


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Return x (N, in) times weight (out, in) transposed -> (N, out). It has no gradient, and
    ignores autocast.
    """
    if _is_for_onednn(x):
        return _onednn(x, weight, None, "none", [], "")
    return functional.linear(x, weight)


def rows_at_once(x: Tensor, columns: int | None = None) -> int:
    """Return how many rows of x (rows, columns) to process at a time in several passes: on the CPU
    what its cache
    holds. ``columns``: of products of x with larger matrices, which are read again for every part.
    """
    if columns is not None:
        return max(1, SCORED_ELEMENTS * (LARGER_ON_GPU if x.is_cuda else 1) // columns)
    cached = x.device.type == "cpu" and not torch.compiler.is_compiling()
    return max(1, CACHED_ELEMENTS // x.shape[1]) if cached else max(1, len(x))


def log_probabilities(logits: Tensor) -> Tensor:
    """Return log probabilities of logits (rows, words) in float32, or float64 for float64; may
    overwrite ``logits``.

    It has no gradient. On the CPU it works in place, in parts that its cache holds. This takes less
    than half the time.
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    if logits.device.type != "cpu" or logits.dtype != exact:
        return logits.log_softmax(dim=1, dtype=exact)
    for part in logits.split(rows_at_once(logits)):
        torch.log_softmax(part, 1, out=part)
    return logits


def largest(x: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the ``number`` largest of each row of x (rows, n) and their columns, largest first.

    They are in the blocks of columns with the largest maxima. On the CPU, finding these first takes
    from a fifth of the time of ``topk`` (40 rows of 32,000) to all of it (5 rows of 8,000). On a
    GPU it was not measured.
    """
    blocks = x.shape[1] // SEARCHED
    if blocks <= 2 * number:
        return x.topk(number, dim=1)
    end = blocks * SEARCHED
    # The largest values are in the blocks with the largest maxima, of which no more than ``number``
    # are needed.
    maxima = x[:, :end].unflatten(1, (blocks, SEARCHED)).amax(dim=2)
    first = maxima.topk(number, dim=1)[1] * SEARCHED
    column = torch.arange(x.shape[1], device=x.device)
    columns = (first.unsqueeze(2) + column[:SEARCHED]).flatten(1)
    columns = torch.cat([columns, column[end:].expand(len(x), -1)], dim=1)
    values, places = x.gather(1, columns).topk(number, dim=1)
    return values, columns.gather(1, places)


class _ByOneDNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx, grad: Tensor):
        x, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        rows = grad.flatten(0, -2)
        if ctx.needs_input_grad[0]:
            of_x = _onednn(grad, weight.t(), None, "none", [], "")
        if ctx.needs_input_grad[1]:
            of_weight = _onednn(rows.t(), x.flatten(0, -2).t(), None, "none", [], "")
        if ctx.needs_input_grad[2]:
            of_bias = rows.sum(dim=0)
        return of_x, of_weight, of_bias
