"""Dropout from many random bits at a time."""

import pytest
import torch

from gtransformer.modules.dropout import dropout, random_mask


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_share_and_independence(p):
    mask = random_mask(torch.empty(1001, 999), p)
    deviation = (p * (1 - p) / mask.numel()) ** 0.5
    assert abs(mask.float().mean().item() - p) < 5 * deviation
    flat = mask.flatten().float()
    for lag in (1, 2, 3, 4, 8):  # four elements share a draw
        both = (flat[:-lag] * flat[lag:]).mean().item()
        assert abs(both - p * p) < 6 * deviation


def test_values_gradient_and_repeatability():
    x = torch.rand(64, 33, dtype=torch.float64).add_(1).requires_grad_()
    torch.manual_seed(3)
    y = dropout(x, 0.3, True)
    torch.manual_seed(3)
    assert torch.equal(y, dropout(x, 0.3, True))
    assert not torch.equal(y, dropout(x, 0.3, True))
    kept = y != 0
    assert torch.allclose(y[kept], x[kept] / 0.7, rtol=1e-4)
    y.sum().backward()
    assert torch.allclose(x.grad, kept.double() / 0.7, rtol=1e-4, atol=0)


def test_expected_value_is_kept():
    assert dropout(torch.ones(2000, 2000), 0.2, True).mean().item() == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("p, training", [(0.0, True), (0.5, False)])
def test_nothing_to_do(p, training):
    x = torch.rand(3, 4)
    assert torch.equal(dropout(x, p, training), x)


def test_everything_dropped():
    assert not dropout(torch.ones(5), 1.0, True).any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_the_gpu():
    share = (dropout(torch.ones(1000, 1000, device="cuda"), 0.3, True) == 0).float().mean().item()
    assert share == pytest.approx(0.3, abs=0.01)
