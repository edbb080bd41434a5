"""Operations that are faster on the CPU than PyTorch's: linear layers, dropout, word embedding. Elsewhere PyTorch's.

Linear layers in float32: PyTorch uses MKL, which does not use AVX-512 on AMD's processors. oneDNN, which PyTorch
includes, does. It was faster on a Zen 5 (docs/lab/performance.md). Sums differ in the last bits.

In bfloat16 oneDNN compiles a kernel for every new shape of a product, for some milliseconds on one core, and keeps a
thousand. Batches without padding have ever new numbers of tokens, so most products waited for a compilation. Here the
rows are cut into a multiple of ``BLOCK`` and the rest, padded to a multiple of ``GRAIN``. So a product with up to 4,096
rows has one of two dozen shapes.

In int8, for translation only, a matrix has a scale for each output, an input has one for each of its rows. So a row's
result does not depend on the others.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gtransformer.modules.processor import has_int8_instructions, onednn_is_faster, onednn_is_there

BLOCK, GRAIN = 512, 32
LARGEST, TINY = 127.0, 1e-30  # of 8-bit integers; the least scale of a row that is not zero
FEW_SHAPES = 8  # rows of an int8 product are a multiple of this: oneDNN compiles a kernel for each number
SEARCHED = 64  # columns of a block of ``largest``
FEW_ROWS = 64  # oneDNN packs weights for about so many rows
MANY_ROWS = 160  # from so many on PyTorch's float32 product beats oneDNN's packed one, unless ``onednn_is_faster``
BITS = 16  # random bits for each element of a dropout mask: probabilities are met to 2 ** -16
SCORED_ELEMENTS = 1 << 22  # log probabilities at a time: larger memory would be returned to the system at every step
CACHED_ELEMENTS = 1 << 18  # 1 MiB in float32 stays in a CPU's cache
LARGE_VOCABULARY = 4096  # fewer words gain nothing, and earlier results stay reproducible to the last digit


class Linear(nn.Linear):
    """torch.nn.Linear with the same parameters and result; on the CPU by the faster library, or in products of few
    shapes. After ``quantise`` it multiplies in int8.
    """

    quantised: Int8Linear | None = None

    def quantise(self) -> None:
        """Multiply in int8 from now on, without gradient; the weights leave memory unless another module has them."""
        self.quantised = Int8Linear.rounded(self.weight.detach(), self.bias)
        # NaN, so that a use of the weights would not go unnoticed. Their shape, type and device remain.
        self.weight = nn.Parameter(self.weight.new_full((), torch.nan).expand_as(self.weight), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer, (..., in) -> (..., out)."""
        if self.quantised is not None:
            return self.quantised(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], self.out_features)
        if _goes_to_onednn(x):
            apply = _ByOneDNN.apply
        elif _goes_in_pieces(x):
            apply = _InPieces.apply
        else:
            return functional.linear(x, self.weight, self.bias)
        return apply(x.reshape(-1, x.shape[-1]), self.weight, self.bias).view(*x.shape[:-1], -1)


class Int8Linear:
    """A linear layer with weights in int8, for float32 inputs on the CPU.

    Args:
        weight: (out, in) int8; scale: (out,), of each output; bias: (out,), or None.
    """

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None):
        self.product = (OneDNNProduct if has_int8_instructions() else FBGEMMProduct)(weight, scale)
        self.scale, self.out_features = scale, len(weight)
        self.bias = None if bias is None else bias.detach()

    @classmethod
    def rounded(cls, weight: Tensor, bias: Tensor | None) -> Int8Linear:
        """Return the layer with weights (out, in) rounded to int8."""
        scale = weight.abs().amax(dim=1).clamp(min=TINY) / LARGEST
        return cls((weight / scale.unsqueeze(1)).round().to(torch.int8), scale, bias)

    @classmethod
    def joined(cls, layers: Sequence[Int8Linear]) -> Int8Linear:
        """Return layers with one input as one layer."""
        weights = torch.cat([one.product.weight for one in layers])
        return cls(weights, torch.cat([one.scale for one in layers]), joined_bias(layers))

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the layer, x (rows, in) -> (rows, out)."""
        largest = x.abs().amax(dim=1, keepdim=True).clamp_(min=TINY)
        found = self.product(x / largest)
        return found.mul_(largest) if self.bias is None else torch.addcmul(self.bias, found, largest)


class OneDNNProduct:
    """The product of x (rows, in), from -1 to 1, in 8 bits and a matrix of ``weight`` (out, in) int8 times ``scale``
    (out,), by oneDNN, where the processor has instructions for it.
    """

    largest = 127

    def __init__(self, weight: Tensor, scale: Tensor):
        self.packed = torch.ops.onednn.qlinear_prepack(weight, None)
        self.scale, self.zero = scale / self.largest, torch.zeros(len(weight), dtype=torch.int64)

    @property
    def weight(self) -> Tensor:
        """The matrix as given."""
        return self.packed.to_dense().t()  # oneDNN's layout is (in, out)

    def __call__(self, x: Tensor) -> Tensor:
        """Return (rows, out) float32."""
        # From 1 to 255, as unsigned bytes with their zero at 128: VNNI multiplies unsigned by signed ones.
        rounded = padded(x, FEW_SHAPES).mul(self.largest).add_(128.5).to(torch.uint8)
        none = None, 1.0, 0, torch.float32, "none", [], ""  # neither bias, another type of the result, nor more
        multiply = torch.ops.onednn.qlinear_pointwise
        return multiply(rounded, 1.0, 128, self.packed, self.scale, self.zero, *none)[: len(x)]


class FBGEMMProduct:
    """The same in 7 bits by FBGEMM, which uses AVX2: in 16 bits, two products of 7 and 8 bits do not overflow."""

    largest = 63

    def __init__(self, weight: Tensor, scale: Tensor):
        zero, engine = torch.zeros(len(weight), dtype=torch.int64), torch.backends.quantized.engine
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*deprecated")  # a PyTorch without it has no int8 here (``has_fbgemm``)
            weight = torch._make_per_channel_quantized_tensor(weight, scale.double(), zero, 0)
        try:
            torch.backends.quantized.engine = "fbgemm"
            self.packed = torch.ops.quantized.linear_prepack(weight, None)
        finally:
            torch.backends.quantized.engine = engine

    @property
    def weight(self) -> Tensor:
        """The matrix as given."""
        return torch.ops.quantized.linear_unpack(self.packed)[0].int_repr()

    def __call__(self, x: Tensor) -> Tensor:
        """Return (rows, out) float32."""
        multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        return multiply(x, 1 / self.largest, self.largest + 1, self.packed)


def quantise(module: nn.Module) -> int:
    """Let all linear layers in a module multiply in int8; return how many there are."""
    layers = [one for one in module.modules() if isinstance(one, Linear)]
    for one in layers:
        one.quantise()
    return len(layers)


def rounded_copy(module: nn.Module) -> nn.Module:
    """Return a module that shares all parameters and buffers with ``module``, but multiplies in int8."""
    shared = {id(one): one for one in (*module.parameters(), *module.buffers())}
    copied = copy.deepcopy(module, shared)
    quantise(copied)
    return copied


class PackedLinear:
    """Linear layers with one input, as one product for few rows, where the time to read the weights dominates.

    The weights are stored in the type of the products, on the CPU in oneDNN's own layout; they must not change while it
    is in use. Products of ``MANY_ROWS`` use them as they are, where this is faster. Results have the type of the input.
    It is for decoding and has no gradient. Layers that multiply in int8 (``Linear.quantise``) do so here, too.

    Args:
        modules: one or more linear layers with one input.
        dtype: type of the products; default that of the weights.
    """

    def __init__(self, *modules: nn.Linear, dtype: torch.dtype | None = None):
        parts = [getattr(module, "quantised", None) for module in modules]
        self.quantised = None
        if all(parts):
            self.quantised = parts[0] if len(parts) == 1 else Int8Linear.joined(parts)
            return
        weight, bias = modules[0].weight.detach(), modules[0].bias
        if len(modules) > 1:
            weight, bias = torch.cat([module.weight.detach() for module in modules]), joined_bias(modules)
        self.dtype = dtype or weight.dtype
        weight, self.shape = weight.to(self.dtype), weight.shape
        self.bias = None if bias is None else bias.detach().to(self.dtype)
        packs = weight.device.type == "cpu" and onednn_is_there()
        if self.dtype == torch.bfloat16:
            packs = packs and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        else:
            packs = packs and self.dtype == torch.float32 and onednn_is_faster(packed=True)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, FEW_ROWS) if packs else None
        both = self.dtype == torch.float32 and not onednn_is_faster()
        self.weight = weight if both or not packs else None

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the layers, x (rows, in) -> (rows, sum of the layers' out)."""
        if self.quantised is not None:
            return self.quantised(x)
        few = self.weight is None or len(x) < MANY_ROWS or torch.is_autocast_enabled("cpu")
        if few and self.packed is not None:
            return _onednn(x.to(self.dtype), self.packed, self.bias).to(x.dtype)
        return functional.linear(x.to(self.dtype), self.weight, self.bias).to(x.dtype)


def joined_bias(layers: Sequence[nn.Linear] | Sequence[Int8Linear]) -> Tensor | None:
    """Return the biases of layers with one input, one after the other; None if there is none."""
    like = next((one.bias for one in layers if one.bias is not None), None)
    if like is None:
        return None
    return torch.cat([like.new_zeros(one.out_features) if one.bias is None else one.bias for one in layers])


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (N, in) times weight (out, in) transposed, plus bias (out,) -> (N, out). It has no gradient."""
    return (_onednn if _goes_to_onednn(x) else functional.linear)(x, weight, bias)


def compiles_shapes(device: torch.device) -> bool:
    """Return whether bfloat16 products compile a kernel for every new shape there (oneDNN), so that few shapes are
    better.
    """
    return device.type == "cpu"


def rows_at_once(x: Tensor, columns: int | None = None) -> int:
    """Return how many rows of x (rows, columns) to process at a time in several passes: on the CPU what its cache
    holds. ``columns``: of products of x with larger matrices, which are read again for every part.
    """
    elements, columns = (CACHED_ELEMENTS, x.shape[1]) if columns is None else (SCORED_ELEMENTS, columns)
    return max(1, elements // columns) if x.device.type == "cpu" else max(1, len(x))


def log_probabilities(logits: Tensor) -> Tensor:
    """Return log probabilities of logits (rows, words) in float32, or float64 for float64; may overwrite ``logits``.

    It has no gradient. On the CPU it works in place, in parts that its cache holds. This takes less than half the time.
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    if logits.device.type != "cpu" or logits.dtype != exact:
        return logits.log_softmax(dim=1, dtype=exact)
    for part in logits.split(rows_at_once(logits)):
        torch.log_softmax(part, 1, out=part)
    return logits


def largest(x: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the ``number`` largest of each row of x (rows, n), largest first, and their columns, (rows, number) each.

    They are in the blocks of columns with the largest maxima. On the CPU this takes a third of ``topk``'s time.
    """
    blocks = x.shape[1] // SEARCHED
    if x.device.type != "cpu" or blocks <= 2 * number:
        return x.topk(number, dim=1)
    chosen = x[:, : blocks * SEARCHED].unflatten(1, (blocks, SEARCHED)).amax(dim=2).topk(number, dim=1, sorted=False)[1]
    columns = (chosen.unsqueeze(2) * SEARCHED + torch.arange(SEARCHED)).flatten(1)
    rest = torch.arange(blocks * SEARCHED, x.shape[1]).expand(len(x), -1)
    columns = torch.cat([columns, rest], dim=1)
    values, found = x.gather(1, columns).topk(number, dim=1)
    return values, columns.gather(1, found)


def padded(x: Tensor, grain: int = GRAIN) -> Tensor:
    """Return x (N, n) followed by rows of zeros, up to a multiple of ``grain``."""
    missing = -len(x) % grain
    return functional.pad(x, (0, 0, 0, missing)) if missing else x


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Return x with elements zeroed with probability ``p`` and the others divided by 1 - p, if ``training``.

    On the CPU random bits are drawn in blocks: drawing them one by one took a tenth of a training step.
    """
    if not training or p == 0.0:
        return x
    if p < 0.0 or p >= 1.0 or x.device.type != "cpu":
        return functional.dropout(x, p, training)
    return _Dropout.apply(x, p)


def random_mask(x: Tensor, p: float) -> Tensor:
    """Return bools in the shape of x, True with probability ``p``; from PyTorch's generator on the CPU."""
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return (draws.view(torch.int16)[: x.numel()] < round(p * 2**BITS) - 2 ** (BITS - 1)).view(x.shape)


def embed_words(words: Tensor, table: nn.Embedding, shared: bool) -> Tensor:
    """Embed words (...) int64 -> (..., channels).

    Args:
        shared: whether the table is also the output layer's, whose gradient has an entry for every word anyway. Then,
            on the CPU, the gradient is sparse: it is added in place to the dense one. No look-up makes a gradient of
            the table's size.
    """
    sparse = shared and table.weight.device.type == "cpu" and table.num_embeddings >= LARGE_VOCABULARY
    if sparse and table.weight.requires_grad and not hasattr(table, "densified"):
        # Optimizers need a dense gradient even if no dense one reaches the table, as with a loss on states.
        table.densified = table.weight.register_post_accumulate_grad_hook(_make_dense)
    return functional.embedding(words, table.weight, table.padding_idx, sparse=sparse)


def _goes_to_onednn(x: Tensor) -> bool:
    """Return whether oneDNN computes products with this operand: float32 on the CPU, not in autocast, not empty."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and onednn_is_faster()
    )


def _goes_in_pieces(x: Tensor) -> bool:
    """Return whether a linear layer splits x (..., in): enough rows, on the CPU, in autocast to bfloat16."""
    return (
        x.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
        and x.dtype != torch.float64  # autocast does not change float64
        and x.numel() >= BLOCK * x.shape[-1]
    )


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _ByOneDNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx, grad: Tensor):
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            product(grad, weight.t()) if for_x else None,
            product(grad.t(), x.t()) if for_weight else None,
            grad.sum(dim=0) if for_bias else None,
        )


class _InPieces(torch.autograd.Function):
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


def _pieces(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first rows, a multiple of ``BLOCK``, and the rest, padded; either may be empty."""
    most = len(x) - len(x) % BLOCK
    return x[:most], padded(x[most:])


def _times(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (N, in) times matrix (in, out), plus bias (out,)."""
    result = x.new_empty(len(x) + -len(x) % GRAIN, matrix.shape[1])
    row = 0
    for piece in _pieces(x):
        out = result[row : row + len(piece)]
        if len(piece):
            torch.mm(piece, matrix, out=out) if bias is None else torch.addmm(bias, piece, matrix, out=out)
        row += len(piece)
    return result[: len(x)]


def _summed(a: Tensor, b: Tensor) -> Tensor:
    """Return a (N, m) transposed times b (N, n) -> (m, n); float32 if it is a sum of two, so that it is rounded only
    once.
    """
    parts = [one.t() @ other for one, other in zip(_pieces(a), _pieces(b), strict=True) if len(one)]
    return parts[0] if len(parts) == 1 else parts[0].float().add_(parts[1])


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float) -> Tensor:
        mask = random_mask(x, p).logical_not_()
        ctx.save_for_backward(mask)
        ctx.scale = 1.0 / (1.0 - round(p * 2**BITS) / 2**BITS)
        return x.mul(ctx.scale).mul_(mask)  # masked_fill is slower

    @staticmethod
    def backward(ctx, grad: Tensor):
        (mask,) = ctx.saved_tensors
        return grad.mul(ctx.scale).mul_(mask), None


def _make_dense(weight: Tensor) -> None:
    if weight.grad is not None and weight.grad.layout == torch.sparse_coo:
        weight.grad = weight.grad.to_dense()
