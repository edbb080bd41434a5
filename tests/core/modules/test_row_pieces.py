"""Linear layers in pieces of rows against float64, and how many shapes their products have."""

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from gtransformer.modules.fused_loss import fused_cross_entropy
from gtransformer.modules.linear import Linear
from gtransformer.modules.row_pieces import BLOCK, GRAIN
from tests.support import relative_error

BFLOAT16 = 2.0**-8  # a unit in the last place


def gradients(layer: nn.Linear, x: torch.Tensor, upstream: torch.Tensor) -> list[torch.Tensor]:
    """Output, and gradients of input and parameters, those that there are."""
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(upstream.to(y.dtype))
    return [y.detach(), x.grad, *(one.grad for one in layer.parameters() if one.requires_grad)]


@pytest.mark.parametrize("rows", [(BLOCK,), (BLOCK + 1,), (2 * BLOCK - 1,), (3, 400), (4 * BLOCK + GRAIN,)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients(rows, bias):
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


def test_float64_stays_what_it_is():
    with torch.autocast("cpu", torch.bfloat16):
        assert Linear(4, 3).double()(torch.zeros(BLOCK, 4, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize(("frozen", "wanted"), [(True, (4, 8)), (False, (BLOCK, 8))])
def test_what_needs_no_gradient_is_not_kept(frozen, wanted):
    """As of PyTorch's own: of frozen weights no input is kept, of an input without gradient no weights."""
    kept = []
    layer = Linear(8, 4).requires_grad_(not frozen)
    x = torch.randn(BLOCK, 8, requires_grad=frozen)
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one.shape) or one, lambda one: one),
        torch.autocast("cpu", torch.bfloat16),
    ):
        layer(x)
    assert set(map(tuple, kept)) == {wanted}


def test_frozen_weights_have_no_gradient():
    layer = Linear(8, 4).requires_grad_(False)
    x = torch.randn(BLOCK + 7, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        layer(x).sum().backward()
    assert layer.weight.grad is None
    assert relative_error(x.grad, layer.weight.sum(dim=0).expand_as(x)) < 2 * BFLOAT16


def shapes(step) -> set[tuple]:
    """Shapes of all products of a function."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        step()
    names = ("aten::mm", "aten::addmm", "aten::bmm")
    return {(event.name, str(event.input_shapes)) for event in found.events() if event.name in names}


@pytest.mark.parametrize(("vocabulary", "numbers"), [(50, range(600, 5000, 97)), (9000, range(3500, 4100, 53))])
def test_shapes_of_products_are_few(vocabulary, numbers):
    """Of a linear layer and the loss, forward and backward, in batches with different numbers of tokens each."""
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
