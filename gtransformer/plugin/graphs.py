"""``--compile graphs``: the compiled loss of a batch and its gradients as one CUDA graph.

The host starts one graph instead of about a thousand kernels, which takes it longer than the GPU
needs for a small batch. PyTorch's own way, ``mode="reduce-overhead"``, hands out gradients in the
graph's memory, where the next batch overwrites them (pytorch#169545): those of several batches
would not add up. Here all that leaves a graph is copied, so gradients are as without graphs.
"""

from __future__ import annotations

import gc

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from gtransformer.errors import UserError
from gtransformer.models.common.decoding.plan import capture


class GraphedLoss:
    """Computes the loss of packed batches, by a CUDA graph from the second one of equal shapes on.

    When a graph is captured, no loss of an earlier batch may be alive: its backward pass belongs to
    another stream, and the capture would fail.
    """

    def __init__(self):
        self.kind, self.graph = None, None

    def __call__(self, model: nn.Module, batch: dict, smoothing: float) -> tuple[Tensor, Tensor]:
        """Return what ``model(packed=batch, smoothing=smoothing)`` does.

        Raises UserError if there can be no graph, for example for lack of memory.
        """
        shapes = [one.shape if isinstance(one, Tensor) else one for one in tree_leaves(batch)]
        # A graph reads parameters and tables of positions where they are now.
        parameters = list(model.parameters())
        addresses = [one.data_ptr() for one in (*parameters, *model.buffers())]
        trained = [one.requires_grad for one in parameters]
        kind = shapes, addresses, trained, model, model.training, smoothing
        if kind != self.kind:
            # The first batch is compiled for, and CUDA's libraries set themselves up.
            self.kind, self.graph = kind, None
            return model(packed=batch, smoothing=smoothing)
        if self.graph is None:
            try:
                self.graph = LossGraph(model, batch, smoothing)
            except RuntimeError as error:  # which fairseq might take for a batch to leave out
                raise UserError(f"--compile graphs: no graph, use --compile on: {error}") from error
        return self.graph(batch)


class LossGraph:
    """The captured passes forward and backward over batches of equal shapes."""

    def __init__(self, model: nn.Module, batch: dict, smoothing: float):
        self.turn = 0
        self.batch = tree_map(lambda one: one.clone() if isinstance(one, Tensor) else one, batch)
        parameters = [one for one in model.parameters() if one.requires_grad]

        def passes() -> tuple[list[Tensor], tuple[Tensor | None, ...]]:
            loss, nll = model(packed=self.batch, smoothing=smoothing)
            return [loss.detach(), nll], torch.autograd.grad(loss, parameters, allow_unused=True)

        # What is left of an earlier backward pass belongs to another stream, and would join it.
        gc.collect()
        self.replay, (self.losses, gradients), _ = capture(passes, None, parameters[0].device)
        used = [pair for pair in zip(parameters, gradients, strict=True) if pair[1] is not None]
        self.parameters, self.gradients = map(list, zip(*used, strict=True))

    def __call__(self, batch: dict) -> tuple[Tensor, Tensor]:
        """Return summed loss and negative log likelihood of a batch, in memory of their own."""
        for own, given in zip(tree_leaves(self.batch), tree_leaves(batch), strict=True):
            if isinstance(own, Tensor):
                own.copy_(given)
        self.turn += 1
        self.replay()
        return _Copied.apply(self, *self.parameters)


class _Copied(torch.autograd.Function):
    """Losses whose gradients a graph has computed already."""

    @staticmethod
    def forward(ctx, graph: LossGraph, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        ctx.graph, ctx.turn = graph, graph.turn
        loss, nll = (one.clone() for one in graph.losses)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, grad_loss: Tensor, _) -> tuple[Tensor | None, ...]:
        if ctx.turn != ctx.graph.turn:
            raise RuntimeError("the graph has been used for another batch since")
        return None, *torch._foreach_mul(ctx.graph.gradients, grad_loss)
