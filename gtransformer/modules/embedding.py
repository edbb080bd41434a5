"""Looking words up in a table that the output layer has, too, without a gradient of its size each time."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

LARGE_VOCABULARY = 4096  # with fewer words there is nothing to gain, and results of before stay to the last digit


def embed_words(words: Tensor, table: nn.Embedding, shared: bool) -> Tensor:
    """words (...) int64 -> (..., channels).

    Args:
        shared: whether the table is the output layer's, whose gradient has an entry for every word in any case. On the
            CPU the rows of the words looked up are then added to that one: a sparse gradient plus a dense one is dense,
            and is added up in place.
    """
    sparse = shared and table.weight.device.type == "cpu" and table.num_embeddings >= LARGE_VOCABULARY
    if sparse and table.weight.requires_grad and not hasattr(table, "densified"):
        # Where nothing dense reaches the table, a loss on states for instance, optimizers want it dense all the same.
        table.densified = table.weight.register_post_accumulate_grad_hook(_make_dense)
    return functional.embedding(words, table.weight, table.padding_idx, sparse=sparse)


def _make_dense(weight: Tensor) -> None:
    if weight.grad is not None and weight.grad.layout == torch.sparse_coo:
        weight.grad = weight.grad.to_dense()
