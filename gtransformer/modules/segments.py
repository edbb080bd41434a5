"""Attention within segments whose bounds are tensors, for batches of fixed shapes.

The engine in ``packed`` plans every batch on the host. Here nothing depends on the values of a
batch but the bounds, so that one compiled graph serves all batches. On a GPU this is PyTorch's
variable-length attention (``varlen``). On the CPU it is an operator of our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gtransformer.modules import varlen


@dataclass
class Segments:
    """The tokens of one side of a packed batch, and where its segments begin.

    Attributes:
        tokens, position, tag: (N,) int64: words; positions from 0; sentences of a document from 1.
        bounds: (segments + 1,) int32, ascending from 0 to N; empty segments are allowed.
        longest: at least the length of the longest segment.
    """

    tokens: Tensor
    position: Tensor
    tag: Tensor
    bounds: dict[str, Tensor]
    longest: dict[str, int]


class SegmentPattern:
    """Queries of a segment see the keys of the segment with its number (an attention ``Pattern``).

    Args:
        kind: of segments, a name of ``bounds``.
        causal: no query sees later keys; then both sides are the same.
    """

    def __init__(self, queries: Segments, keys: Segments, kind: str, causal: bool):
        self.queries, self.keys, self.kind, self.causal = queries, keys, kind, causal

    def project(self, module: nn.Module, x: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """See ``Pattern.project``."""
        return module.project(x, memory, self.queries.tag, self.keys.tag)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, relative: Tensor | None = None
    ) -> Tensor:
        """See ``Pattern.attend``; without dropout of weights and relative positions."""
        if dropout or relative is not None:
            raise NotImplementedError("attention within fixed segments has no dropout of weights")
        bounds = self.queries.bounds[self.kind], self.keys.bounds[self.kind]
        if not q.is_cuda:
            return segment_attention(q, k, v, *bounds, self.causal).flatten(1)
        longest = self.queries.longest[self.kind], self.keys.longest[self.kind]
        return varlen.attend(q, k, v, bounds, longest, self.causal)


@torch.library.custom_op("gtransformer::segment_attention", mutates_args=())
def segment_attention(
    q: Tensor, k: Tensor, v: Tensor, query_bounds: Tensor, key_bounds: Tensor, causal: bool
) -> Tensor:
    """Attend within segments: q (Nq, heads, dim), k and v (Nk, heads, dim) -> (Nq, heads, dim).

    A query of a segment without keys, or after the last segment, has the result 0.
    """
    found = torch.zeros_like(q)
    for queries, keys in _slices(query_bounds, key_bounds):
        weights = _weights(q[queries], k[keys], causal)
        found[queries] = torch.matmul(weights, v[keys].transpose(0, 1)).transpose(0, 1)
    return found


@torch.library.custom_op("gtransformer::segment_attention_backward", mutates_args=())
def _backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_bounds: Tensor,
    key_bounds: Tensor,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v."""
    grads = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    scale = q.shape[2] ** -0.5
    for queries, keys in _slices(query_bounds, key_bounds):
        own, upper = q[queries].transpose(0, 1), grad[queries].transpose(0, 1)
        weights = _weights(q[queries], k[keys], causal)
        of_weights = torch.matmul(upper, v[keys].permute(1, 2, 0))
        # The softmax's gradient: each score changes all weights of its row.
        along = (of_weights * weights).sum(dim=-1, keepdim=True)
        of_scores = weights * (of_weights - along) * scale
        grads[0][queries] = torch.matmul(of_scores, k[keys].transpose(0, 1)).transpose(0, 1)
        grads[1][keys] = torch.matmul(of_scores.transpose(1, 2), own).transpose(0, 1)
        grads[2][keys] = torch.matmul(weights.transpose(1, 2), upper).transpose(0, 1)
    return grads


def _slices(query_bounds: Tensor, key_bounds: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield the queries and keys of each segment that has both."""
    queries, keys = query_bounds.tolist(), key_bounds.tolist()
    for number in range(len(queries) - 1):
        own = slice(queries[number], queries[number + 1])
        other = slice(keys[number], keys[number + 1])
        if own.start < own.stop and other.start < other.stop:
            yield own, other


def _weights(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """Return the attention weights of one segment, (heads, queries, keys)."""
    scores = torch.matmul(q.transpose(0, 1), k.permute(1, 2, 0)) * q.shape[2] ** -0.5
    if causal:
        future = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    return scores.softmax(dim=-1)


def _save(ctx, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.causal = inputs[5]


def _gradients(ctx, grad: Tensor) -> tuple:
    return *_backward(grad, *ctx.saved_tensors, ctx.causal), None, None, None


# Shapes alone, for the compiler.
segment_attention.register_fake(lambda q, *more: torch.empty_like(q))
_backward.register_fake(lambda grad, q, k, v, *more: tuple(map(torch.empty_like, (q, k, v))))
segment_attention.register_autograd(_gradients, setup_context=_save)
