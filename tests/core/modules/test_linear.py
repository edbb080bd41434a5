"""Linear layers by oneDNN against float64, and several layers packed into one product."""

import pytest
import torch
from torch import nn

from gtransformer.modules import linear
from gtransformer.modules.linear import Linear, PackedLinear, onednn_is_faster, product, trains_faster_in_bfloat16
from tests.support import relative_error

needs_onednn = pytest.mark.skipif(not linear.onednn_is_there(), reason="this PyTorch has no oneDNN")


@pytest.fixture(params=["0", "1"])
def library(request, monkeypatch):
    """Both libraries in turn."""
    if request.param == "1" and not linear.onednn_is_there():
        pytest.skip("this PyTorch has no oneDNN")
    monkeypatch.setenv("GTRANSFORMER_ONEDNN", request.param)
    onednn_is_faster.cache_clear()
    yield request.param
    monkeypatch.undo()
    onednn_is_faster.cache_clear()


@pytest.mark.parametrize("shape", [(1, 7, 5), (300, 64, 257), (2, 3, 33, 48)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients(library, shape, bias):
    *rows, inside, outside = shape
    layer = Linear(inside, outside, bias=bias)
    exact = nn.Linear(inside, outside, bias=bias).double()
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(*rows, inside, requires_grad=True)
    x64 = x.detach().double().requires_grad_()
    y, y64 = layer(x), exact(x64)
    upstream = torch.randn_like(y)
    y.backward(upstream)
    y64.backward(upstream.double())
    assert y.shape == y64.shape and y.dtype == torch.float32
    pairs = [
        (y, y64),
        (x.grad, x64.grad),
        *zip((p.grad for p in layer.parameters()), (p.grad for p in exact.parameters()), strict=True),
    ]
    for found, expected in pairs:
        assert relative_error(found, expected) < 2e-6


def test_no_rows(library):
    x = torch.zeros(0, 4, requires_grad=True)
    y = Linear(4, 3)(x)
    y.sum().backward()
    assert y.shape == (0, 3) and x.grad.shape == (0, 4)


def test_frozen_weights(library):
    layer = Linear(4, 3).requires_grad_(False)
    x = torch.randn(2, 4, requires_grad=True)
    layer(x).sum().backward()
    assert torch.allclose(x.grad, layer.weight.sum(dim=0).expand(2, 4), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_pytorch(library, dtype):
    layer = Linear(8, 5).to(dtype)
    x = torch.randn(3, 8, dtype=dtype)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))


def test_autocast(library):
    layer, x = Linear(16, 8), torch.randn(3, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


@pytest.mark.parametrize("rows", [1, 5, 80, 700])
def test_packed_layers_equal_the_layers(library, rows):
    layers = [Linear(24, n) for n in (8, 24, 3)]
    x = torch.randn(rows, 24)
    packed = PackedLinear(*layers)
    expected = torch.cat([layer.double()(x.double()) for layer in layers], dim=1)
    assert relative_error(packed(x), expected) < 2e-6


def test_packed_without_bias_and_in_float64(library):
    layer = Linear(6, 4, bias=False).double()
    x = torch.randn(3, 6, dtype=torch.float64)
    assert torch.equal(PackedLinear(layer)(x), layer(x))


def test_packed_in_bfloat16(library):
    layer, x = Linear(64, 32), torch.randn(9, 64)
    y = PackedLinear(layer, dtype=torch.bfloat16)(x)
    assert y.dtype == torch.float32
    assert 0 < relative_error(y, layer(x)) < 0.02


@needs_onednn
def test_the_choice(monkeypatch):
    monkeypatch.setenv("GTRANSFORMER_ONEDNN", "yes")
    onednn_is_faster.cache_clear()
    with pytest.raises(ValueError, match="GTRANSFORMER_ONEDNN=yes"):
        product(torch.ones(1, 2), torch.ones(3, 2))
    monkeypatch.delenv("GTRANSFORMER_ONEDNN")
    for vendor, capability, faster in (
        ("AuthenticAMD", "AVX512", True), ("GenuineIntel", "AVX512", False), ("AuthenticAMD", "AVX2", False)
    ):  # fmt: skip
        onednn_is_faster.cache_clear()
        monkeypatch.setattr(linear, "_vendor", lambda vendor=vendor: vendor)
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        assert onednn_is_faster() is faster
    onednn_is_faster.cache_clear()


@pytest.mark.parametrize(
    ("vendor", "flags", "faster"),
    [
        ("GenuineIntel", "avx512f avx512_bf16", False),
        ("GenuineIntel", "avx512f avx512_bf16 amx_bf16 amx_tile", True),
        ("AuthenticAMD", "avx512f avx512_bf16", True),
        ("AuthenticAMD", "avx2", False),
    ],
)
def test_where_training_in_bfloat16_is_faster(monkeypatch, vendor: str, flags: str, faster: bool):
    monkeypatch.setattr(linear, "processor_fields", lambda: {"vendor_id": vendor, "flags": f"fpu {flags}"})
    trains_faster_in_bfloat16.cache_clear()
    assert trains_faster_in_bfloat16() is faster
    trains_faster_in_bfloat16.cache_clear()
