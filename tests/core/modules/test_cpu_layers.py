"""Dropout from many random bits at a time; words looked up in the output layer's table, with a dense gradient."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from gtransformer.modules.kernels import LARGE_VOCABULARY, dropout, embed_words, random_mask


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
def test_share_and_independence(p):
    mask = random_mask(torch.empty(1001, 999), p)
    deviation = (p * (1 - p) / mask.numel()) ** 0.5
    assert abs(mask.float().mean().item() - p) < 5 * deviation
    flat = mask.flatten().float()
    for lag in (1, 2, 3, 4, 8):  # four elements share a draw
        both = (flat[:-lag] * flat[lag:]).mean().item()
        assert abs(both - p * p) < 6 * deviation


def test_dropouts_values_gradient_and_repeatability():
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
    assert torch.equal(dropout(x, 0.0, True), x) and torch.equal(dropout(x, 0.5, False), x)
    assert not dropout(x, 1.0, True).any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_dropout_on_the_gpu():
    share = (dropout(torch.ones(1000, 1000, device="cuda"), 0.3, True) == 0).float().mean().item()
    assert share == pytest.approx(0.3, abs=0.01)


def gradient(look_up) -> torch.Tensor:
    """Of two lookups with repeated words and padding, and of an output layer with the same table."""
    torch.manual_seed(1)
    table = nn.Embedding(LARGE_VOCABULARY, 6, padding_idx=1)
    for words in (torch.tensor([5, 1, 5, 4000]), torch.tensor([[7, 5], [1, 9]])):
        for _ in range(2):  # of accumulated batches, the second is added to the first
            x = look_up(words, table).reshape(-1, 6)
            functional.linear(x.sin(), table.weight).logsumexp(dim=1).sum().backward()
    return table.weight.grad


def test_gradient_is_that_of_embeddings():
    expected = gradient(lambda words, table: table(words))
    found = gradient(lambda words, table: embed_words(words, table, shared=True))
    assert found.layout == torch.strided
    assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_where_nothing_dense_reaches_the_table_its_gradient_is_dense_all_the_same(shared):
    table = nn.Embedding(LARGE_VOCABULARY, 6)
    for _ in range(2):
        embed_words(torch.tensor([3, 5, 3]), table, shared).sum().backward()
    assert table.weight.grad.layout == torch.strided
    assert table.weight.grad[3].eq(4).all() and table.weight.grad[5].eq(2).all()
