"""Looking words up in the output layer's table: the gradient is that of ordinary embeddings, and it is dense."""

import torch
from torch import nn
from torch.nn import functional

from gtransformer.modules.embedding import LARGE_VOCABULARY, embed_words


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


def test_a_table_of_its_own_has_a_dense_gradient():
    table = nn.Embedding(LARGE_VOCABULARY, 6)
    embed_words(torch.tensor([3]), table, shared=False).sum().backward()
    assert table.weight.grad.layout == torch.strided


def test_where_nothing_dense_reaches_the_table_its_gradient_is_dense_all_the_same():
    table = nn.Embedding(LARGE_VOCABULARY, 6)
    for _ in range(2):
        embed_words(torch.tensor([3, 5, 3]), table, shared=True).sum().backward()
    assert table.weight.grad.layout == torch.strided
    assert table.weight.grad[3].eq(4).all() and table.weight.grad[5].eq(2).all()
