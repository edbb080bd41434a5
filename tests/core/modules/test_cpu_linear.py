"""Linear layers of the CPU against float64: by oneDNN, packed for decoding, in int8."""

import pytest
import torch
from torch import nn

from gtransformer.modules import kernels
from gtransformer.modules.kernels import (
    Linear,
    PackedLinear,
    largest,
    log_probabilities,
    quantise,
)
from gtransformer.modules.processor import has_int8, has_vnni, onednn_is_faster
from tests.support import relative_error


@pytest.fixture(params=["0", "1", ""], ids=["PyTorch", "oneDNN", "default"])
def library(request, monkeypatch):
    """Both libraries in turn, and the choice on this machine."""
    if request.param == "1" and not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")
    monkeypatch.setenv("GTRANSFORMER_ONEDNN", request.param)
    onednn_is_faster.cache_clear()
    yield request.param
    monkeypatch.undo()
    onednn_is_faster.cache_clear()


def gradients(layer: nn.Linear, x: torch.Tensor, upstream: torch.Tensor) -> list[torch.Tensor]:
    """Output, and gradients of input and parameters."""
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(upstream.to(y.dtype))
    return [y.detach(), x.grad, *(one.grad for one in layer.parameters())]


@pytest.mark.parametrize("shape", [(1, 7, 5), (300, 64, 257), (2, 3, 33, 48)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients(library, shape, bias):
    *rows, inside, outside = shape
    layer, exact = (
        Linear(inside, outside, bias=bias),
        nn.Linear(inside, outside, bias=bias).double(),
    )
    exact.load_state_dict(layer.state_dict())
    x, upstream = torch.randn(*rows, inside), torch.randn(*rows, outside)
    found = gradients(layer, x, upstream)
    assert all(one.dtype == torch.float32 for one in found)
    for one, wanted in zip(found, gradients(exact, x.double(), upstream.double()), strict=True):
        assert one.shape == wanted.shape and relative_error(one, wanted) < 2e-6


def test_no_rows_and_frozen_weights(library):
    layer = Linear(4, 3).requires_grad_(False)
    for rows in (0, 2):
        x = torch.randn(rows, 4, requires_grad=True)
        layer(x).sum().backward()
        assert torch.allclose(x.grad, layer.weight.sum(dim=0).expand(rows, 4), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_pytorch(library, dtype):
    layer = Linear(8, 5).to(dtype)
    x = torch.randn(3, 8, dtype=dtype)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert Linear(16, 8)(torch.randn(3, 16)).dtype == torch.bfloat16


@pytest.mark.parametrize("rows", [1, 80, 700])
def test_packed_layers_equal_the_layers(library, rows):
    x = torch.randn(rows, 24)
    for size in (8, 24, 3):
        layer = Linear(24, size)
        packed = PackedLinear(layer, dtype=layer.weight.dtype)
        found = packed(x), packed(x)  # weights are packed for the second use
        exact = layer.double()(x.double())
        assert max(relative_error(one, exact) for one in found) < 2e-6


def test_packed_without_bias_and_in_other_types(library):
    layer, x = Linear(64, 32, bias=False), torch.randn(9, 64)
    packed = PackedLinear(layer, dtype=torch.bfloat16)
    for y in (packed(x), packed(x)):
        assert y.dtype == torch.bfloat16 and 0 < relative_error(y, layer(x)) < 0.02
    assert torch.equal(
        PackedLinear(layer.double(), dtype=torch.float64)(x.double()), layer(x.double())
    )


needs_int8 = pytest.mark.skipif(not has_int8(), reason="the processor has no instructions for int8")


def rounded(x: torch.Tensor, largest: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers from -largest to largest and the scale of each row, in float64."""
    scale = x.double().abs().amax(dim=1, keepdim=True).clamp(min=1e-30) / largest
    return (x.double() / scale).round(), scale


@needs_int8
@pytest.mark.parametrize("vnni", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_int8_by_integers(bias, vnni, monkeypatch):
    """The product of rounded inputs and rounded weights, in float64; large and small rows keep
    their own digits.
    """
    if vnni and not has_vnni():
        pytest.skip("the processor has no VNNI")
    monkeypatch.setattr(kernels, "has_vnni", lambda: vnni)
    torch.manual_seed(1)
    layer = Linear(48, 33, bias=bias)
    x = torch.randn(9, 48) * torch.logspace(-6, 6, 9)[:, None]
    x[1], x[2], x[3] = 0.0, 3.0, -3.0
    with torch.no_grad():
        layer.weight[:2] = torch.tensor(
            [[2.0], [-2.0]]
        )  # whose products are the largest that there are
    (inputs, in_scale), (weights, out_scale) = (
        rounded(x, 127 if vnni else 63),
        rounded(layer.weight.detach(), 127),
    )
    quantise(layer)
    assert (
        layer.weight.untyped_storage().nbytes() == 4 and layer.weight.isnan().all()
    )  # the others leave memory
    expected = inputs @ weights.t() * in_scale * out_scale.t() + (
        layer.bias.detach().double() if bias else 0.0
    )
    found = layer(x)
    assert found.dtype == torch.float32 and not found.requires_grad
    assert torch.allclose(found.double(), expected, rtol=1e-5, atol=1e-6)
    for row in range(len(x)):
        assert torch.equal(layer(x[row : row + 1]), found[row : row + 1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_log_probabilities(dtype):
    """More than one part; a row with one possible word."""
    logits = torch.randn(5, 1 << 17, dtype=dtype)
    logits[3, 1:] = -torch.inf
    found = log_probabilities(logits.clone())
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    assert torch.equal(found, logits.log_softmax(dim=1, dtype=exact))


@pytest.mark.parametrize("columns", [30, 64 * 7, 1000])
def test_the_largest_of_each_row(columns):
    """In any place, also in the last columns, which fill no block; ties aside, as ``topk``."""
    x = torch.randn(50, columns)
    x[0, -3:] = torch.tensor([9.0, 11.0, 10.0])
    x[1] = torch.arange(columns)
    x[2, 5:] = -torch.inf  # fewer words are allowed than are asked for
    values, index = largest(x, 8)
    torch.testing.assert_close(values, x.topk(8, dim=1)[0], rtol=0, atol=0)
    assert torch.equal(x.gather(1, index), values)
    assert all(len(row.unique()) == 8 for row in index)
