"""Dropout and word embedding, which on the CPU are a tenth of a training step by PyTorch's own means."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

BITS = 16  # random bits for each element of a dropout mask: probabilities are met to 2 ** -16
LARGE_VOCABULARY = 4096  # with fewer words there is nothing to gain, and results of before stay to the last digit


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """x with elements zeroed with probability ``p`` and the others divided by 1 - p, if ``training``.

    On the CPU random bits are drawn many at a time: drawing them one by one was a tenth of a training step.
    """
    if not training or p <= 0.0 or x.device.type != "cpu" or p >= 1.0:
        return functional.dropout(x, p, training)
    return _Dropout.apply(x, p)


def random_mask(x: Tensor, p: float) -> Tensor:
    """bool, in the shape of x, True with probability ``p``; from PyTorch's generator on the CPU."""
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return (draws.view(torch.int16)[: x.numel()] < round(p * 2**BITS) - 2 ** (BITS - 1)).view(x.shape)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float) -> Tensor:
        kept = random_mask(x, p).logical_not_()
        ctx.save_for_backward(kept)
        ctx.scale = 1.0 / (1.0 - round(p * 2**BITS) / 2**BITS)
        return x.mul(ctx.scale).mul_(kept)  # masked_fill is slower

    @staticmethod
    def backward(ctx, grad: Tensor):
        (kept,) = ctx.saved_tensors
        return grad.mul(ctx.scale).mul_(kept), None


def embed_words(words: Tensor, table: nn.Embedding, shared: bool) -> Tensor:
    """words (...) int64 -> (..., channels).

    Args:
        shared: whether the table is the output layer's, whose gradient has an entry for every word in any case. On the
            CPU the rows of the words looked up are then added to that one: a sparse gradient plus a dense one is dense,
            and is added up in place, without a gradient of the table's size for each look-up.
    """
    sparse = shared and table.weight.device.type == "cpu" and table.num_embeddings >= LARGE_VOCABULARY
    if sparse and table.weight.requires_grad and not hasattr(table, "densified"):
        # Where nothing dense reaches the table, a loss on states for instance, optimizers want it dense all the same.
        table.densified = table.weight.register_post_accumulate_grad_hook(_make_dense)
    return functional.embedding(words, table.weight, table.padding_idx, sparse=sparse)


def _make_dense(weight: Tensor) -> None:
    if weight.grad is not None and weight.grad.layout == torch.sparse_coo:
        weight.grad = weight.grad.to_dense()
