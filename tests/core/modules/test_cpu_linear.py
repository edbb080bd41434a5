"""Linear layers of the CPU against float64: by oneDNN, packed for decoding, in bfloat16 in products of few shapes."""

import copy

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from gtransformer.errors import UserError
from gtransformer.modules import fused_loss, kernels, processor
from gtransformer.modules.fused_loss import fused_cross_entropy
from gtransformer.modules.kernels import (
    BLOCK,
    GRAIN,
    SEARCHED,
    FBGEMMProduct,
    Linear,
    OneDNNProduct,
    PackedLinear,
    largest,
    log_probabilities,
    product,
    rounded_copy,
)
from gtransformer.modules.processor import has_fbgemm, has_int8_instructions, onednn_is_faster
from tests.support import relative_error

BFLOAT16 = 2.0**-8  # a unit in the last place


@pytest.fixture(params=["0", "1", ""], ids=["PyTorch", "oneDNN", "default"])
def library(request, monkeypatch):
    """Both libraries in turn, and the choice on this machine."""
    if request.param == "1" and not processor.onednn_is_there():
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
    layer, exact = Linear(inside, outside, bias=bias), nn.Linear(inside, outside, bias=bias).double()
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
        assert Linear(4, 3).double()(torch.zeros(BLOCK, 4, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("rows", [1, 80, 700])
def test_packed_layers_equal_the_layers(library, rows):
    layers = [Linear(24, n) for n in (8, 24, 3)]
    x = torch.randn(rows, 24)
    packed = PackedLinear(*layers)
    expected = torch.cat([layer.double()(x.double()) for layer in layers], dim=1)
    assert relative_error(packed(x), expected) < 2e-6


def test_packed_without_bias_and_in_other_types(library):
    layer, x = Linear(64, 32, bias=False), torch.randn(9, 64)
    y = PackedLinear(layer, dtype=torch.bfloat16)(x)
    assert y.dtype == torch.float32 and 0 < relative_error(y, layer(x)) < 0.02
    assert torch.equal(PackedLinear(layer.double())(x.double()), layer(x.double()))


@pytest.mark.skipif(not processor.onednn_is_there(), reason="this PyTorch has no oneDNN")
def test_a_wish_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("GTRANSFORMER_ONEDNN", "yes")
    onednn_is_faster.cache_clear()
    with pytest.raises(UserError, match="GTRANSFORMER_ONEDNN=yes: give 0 or 1"):
        product(torch.ones(1, 2), torch.ones(3, 2))


@pytest.mark.parametrize("rows", [(BLOCK,), (BLOCK + 1,), (2 * BLOCK - 1,), (3, 400), (4 * BLOCK + GRAIN,)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_in_few_shapes(rows, bias):
    """In bfloat16, no worse than PyTorch's own."""
    generator = torch.Generator().manual_seed(1)
    layer, exact = Linear(48, 33, bias=bias), nn.Linear(48, 33, bias=bias).double()
    x, upstream = (torch.randn(*rows, size, generator=generator) for size in (48, 33))
    with torch.no_grad():  # what is rounded at once is not the question
        for one, other in zip(layer.parameters(), exact.parameters(), strict=True):
            one.copy_(one.bfloat16())
            other.copy_(one)
    x, upstream = x.bfloat16().float(), upstream.bfloat16().float()
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(layer, x, upstream)
        usual = nn.Linear(48, 33, bias=bias)
        usual.load_state_dict(layer.state_dict())
        plain = gradients(usual, x, upstream)
    wanted = gradients(exact, x.double(), upstream.double())
    assert [one.dtype for one in found] == [one.dtype for one in plain]
    for ours, theirs, truth in zip(found, plain, wanted, strict=True):
        assert ours.shape == truth.shape
        assert relative_error(ours, truth) <= max(2 * relative_error(theirs, truth), BFLOAT16)
        far, near = ((one.double() - truth).square().mean().sqrt() for one in (ours, theirs))
        assert far <= 1.2 * near + 1e-7


@pytest.mark.parametrize(("frozen", "wanted"), [(True, (4, 8)), (False, (BLOCK + 7, 8))])
def test_what_needs_no_gradient_is_not_kept(frozen, wanted):
    """As of PyTorch's own: of frozen weights no input is kept, of an input without gradient no weights."""
    kept = []
    layer = Linear(8, 4).requires_grad_(not frozen)
    x = torch.randn(BLOCK + 7, 8, requires_grad=frozen)
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one.shape) or one, lambda one: one),
        torch.autocast("cpu", torch.bfloat16),
    ):
        layer(x).sum().backward()
    assert set(map(tuple, kept)) == {wanted}
    if frozen:
        assert layer.weight.grad is None
        assert relative_error(x.grad, layer.weight.sum(dim=0).expand_as(x)) < 2 * BFLOAT16


def shapes(step) -> set[tuple]:
    """Shapes of all products of a function."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        step()
    names = ("aten::mm", "aten::addmm", "aten::bmm")
    return {(event.name, str(event.input_shapes)) for event in found.events() if event.name in names}


@pytest.mark.parametrize(("vocabulary", "numbers"), [(50, range(600, 5000, 97)), (300, range(3500, 4100, 106))])
def test_shapes_of_products_are_few(vocabulary, numbers, monkeypatch):
    """Of a linear layer and the loss, forward and backward, in batches with different numbers of tokens each."""
    monkeypatch.setattr(fused_loss, "LARGE_VOCABULARY", 200)
    monkeypatch.setattr(fused_loss, "CHUNK_ELEMENTS", 1864 * 300)  # 1,864 rows at a time of the larger vocabulary
    layer, words = Linear(8, 4), nn.Parameter(torch.randn(vocabulary, 4))
    targets = torch.randint(vocabulary, (5000,))

    def step(tokens: int) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = fused_cross_entropy(layer(torch.randn(tokens, 8)), words, targets[:tokens], 0.1)
        loss.backward()

    found = [shapes(lambda tokens=tokens: step(tokens)) for tokens in numbers]
    products = {(name, shape) for one in found for name, shape in one}
    # Of the layer forward and for the weights: 9 multiples of 512 and 16 of 32. Of the loss three: 16 and the largest.
    assert 5 <= min(map(len, found)) and len(products) <= 2 * (9 + 16) + 3 * (16 + 1)
    assert layer.weight.grad.isfinite().all() and words.grad.isfinite().all()


def rounded(x: torch.Tensor, largest: int = 127) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers from -largest to largest and the scale of each row, in float64."""
    scale = x.double().abs().amax(dim=1, keepdim=True).clamp(min=1e-30) / largest
    return (x.double() / scale).round(), scale


@pytest.fixture(params=[OneDNNProduct, FBGEMMProduct])
def product8(request, monkeypatch):
    """The product in int8 by each library."""
    by_onednn = request.param is OneDNNProduct
    if not (has_int8_instructions() if by_onednn else has_fbgemm()):
        pytest.skip("the processor has no instructions for it")
    monkeypatch.setattr(kernels, "has_int8_instructions", lambda: by_onednn)
    return request.param


@pytest.mark.parametrize("rows", [0, 1, 5, 8, 83])
@pytest.mark.parametrize("bias", [True, False])
def test_int8_by_integers(product8, rows, bias):
    """The product of rounded inputs and rounded weights, in float64; large and small rows keep their own digits."""
    torch.manual_seed(rows)
    layer = Linear(48, 33, bias=bias)
    x = torch.randn(rows, 48) * torch.logspace(-6, 6, max(rows, 1))[:rows, None]
    x[1:2] = 0.0
    (inputs, in_scale), (weights, out_scale) = rounded(x, product8.largest), rounded(layer.weight.detach())
    layer.quantise()
    assert layer.weight.untyped_storage().nbytes() == 4 and layer.weight.isnan().all()  # the others leave memory
    expected = inputs @ weights.t() * in_scale * out_scale.t() + (layer.bias.detach().double() if bias else 0.0)
    found = layer(x)
    assert found.dtype == torch.float32 and not found.requires_grad
    assert torch.allclose(found.double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(PackedLinear(layer)(x), found)
    for row in range(rows):
        assert torch.equal(layer(x[row : row + 1]), found[row : row + 1])


def test_int8_does_not_overflow(product8):
    """The largest inputs and weights, of which two products in 8 bits each are more than 16 bits hold."""
    layer = Linear(256, 4, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    layer.quantise()
    x = torch.tensor([[3.0], [-3.0]]).expand(2, 256)
    assert torch.allclose(layer(x), 256 * torch.tensor([[6.0], [-6.0]]).expand(2, 4))


def test_fbgemm_whatever_engine_is_set(product8, monkeypatch):
    monkeypatch.setattr(torch.backends.quantized, "engine", "qnnpack")
    layer, x = Linear(8, 8), torch.randn(3, 8)
    exact = layer(x)
    layer.quantise()
    assert (layer(x) - exact).abs().max() < 0.1 and torch.backends.quantized.engine == "qnnpack"


def test_a_rounded_copy_shares_its_parameters(product8):
    """All but the weights that it has in int8; the original stays as it is."""
    layers = nn.Sequential(Linear(8, 8), nn.LayerNorm(8), Linear(8, 4))
    layers[2].weight = nn.Parameter(layers[0].weight[:4].detach())
    x, exact = torch.randn(3, 8), copy.deepcopy(layers)
    copied = rounded_copy(layers)
    assert torch.equal(layers(x), exact(x)) and layers[0].quantised is None
    assert 0 < (copied(x) - exact(x)).abs().max() < 0.1
    assert copied[1].weight is layers[1].weight and copied[2].bias is layers[2].bias


def test_int8_of_several_layers_with_one_input(product8):
    torch.manual_seed(1)
    layers, x = [Linear(16, size, bias=size != 8) for size in (24, 8, 16)], torch.randn(2, 3, 16)
    for one in layers:
        one.quantise()
    assert torch.equal(PackedLinear(*layers)(x[0]), torch.cat([one(x) for one in layers], dim=-1)[0])


@pytest.mark.parametrize("columns", [7, 2 * 3 * SEARCHED + 1, 40 * SEARCHED, 40 * SEARCHED + 63])
def test_the_largest_by_blocks(columns):
    """Against a sort of everything; rows of which almost all are excluded, too."""
    torch.manual_seed(columns)
    x = torch.randn(6, columns)
    x[1, 3:] = x[2, :-2] = -torch.inf
    x[3] = torch.arange(columns)
    values, index = largest(x, 3)
    assert torch.equal(values, x.sort(dim=1, descending=True)[0][:, :3])
    assert torch.equal(x.gather(1, index), values)
    assert all(len(set(row)) == 3 for row in index.tolist())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_log_probabilities(dtype):
    """More than one part; a row with one possible word."""
    logits = torch.randn(5, 1 << 17, dtype=dtype)
    logits[3, 1:] = -torch.inf
    found = log_probabilities(logits.clone())
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    assert torch.equal(found, logits.log_softmax(dim=1, dtype=exact))
