"""Dropout by fewer random numbers than PyTorch's."""

from __future__ import annotations

import pytest
import torch

from gtransformer.modules.kernels import dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.75])
def test_dropped_and_scaled(p, dtype):
    """An element is zero with probability p, independently of others; the rest and the gradients
    are scaled.
    """
    torch.manual_seed(0)
    x = torch.ones(401, 500, dtype=dtype, requires_grad=True)
    y = dropout(x, p)
    y.sum().backward()
    kept = y != 0
    count = kept.numel()
    assert abs(kept.double().mean() - (1 - p)) < 5 * (p * (1 - p) / count) ** 0.5
    # An element and its right neighbour are drawn from one word: both stay with probability (1 -
    # p)^2.
    both = (kept[:, 1:] & kept[:, :-1]).double().mean()
    assert abs(both - (1 - p) ** 2) < 5 * (p * (1 - p) / count) ** 0.5
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / (1 - p)))
    torch.testing.assert_close(x.grad, y)
    assert not torch.equal(dropout(x, p), y)


def test_without_effect():
    """Outside training, and with probability 0, the input is returned; with probability 1 nothing
    is left.
    """
    x = torch.randn(3, 5)
    assert torch.equal(dropout(x, 0.5, training=False), x)
    assert torch.equal(dropout(x, 0.0), x)
    assert not dropout(x, 1.0).any()
