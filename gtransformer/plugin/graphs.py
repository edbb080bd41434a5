"""The compiled loss of a batch and its gradients as one CUDA graph: one launch instead of about a
thousand, which take the host longer than the GPU if batches are small.

PyTorch's own way, ``mode="reduce-overhead"``, hands out gradients in the graph's memory, where the
next batch overwrites them (its issue 169545): those of several batches would not add up. Here all
that leaves a graph is copied. So gradients are those of any other training.
"""

from __future__ import annotations

import gc
import logging

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from gtransformer.models.common.decoding.plan import capture

logger = logging.getLogger(__name__)

BEFORE = 2  # batches without a graph: the first is compiled for, and libraries set themselves up
# A graph's results may differ so much from the others, as a share of the norm: the order of sums is
# not fixed. Another dropout would be far above.
DEVIATION = 0.02
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class GraphedLoss:
    """Computes the loss of packed batches, by a CUDA graph from the third of a form on.

    It stops doing so, with a warning, once a graph cannot be captured or is wrong.
    """

    def __init__(self):
        self.form, self.seen, self.works = None, 0, True
        self.graph: LossGraph | None = None

    def __call__(self, model: nn.Module, batch: dict, smoothing: float) -> tuple[Tensor, Tensor]:
        """Return what ``model(packed=batch, smoothing=smoothing)`` does."""
        sizes = [one.shape if isinstance(one, Tensor) else one for one in tree_leaves(batch)]
        form = model, model.training, smoothing, sizes
        if form != self.form or (self.graph and not self.graph.holds()):
            self.form, self.seen, self.graph = form, 0, None
        self.seen += 1
        if self.works and self.graph is None and self.seen > BEFORE:
            self._capture(model, batch, smoothing)
        if self.graph is None:
            return model(packed=batch, smoothing=smoothing)
        return self.graph(batch)

    def _capture(self, model: nn.Module, batch: dict, smoothing: float) -> None:
        seed = torch.initial_seed()
        try:
            self.graph = LossGraph(model, batch, smoothing)
            logger.info("compiled training: batches are computed by a CUDA graph")
        except RuntimeError as error:  # PyTorch's, too
            logger.warning("compiled training goes on without CUDA graphs: %s", error)
            self.works = False
        torch.manual_seed(seed)


class LossGraph:
    """The passes forward and backward over batches of one form, captured.

    Raises RuntimeError if they cannot be, or if the graph does not compute what they do.
    """

    def __init__(self, model: nn.Module, batch: dict, smoothing: float):
        self.model, self.smoothing, self.turn = model, smoothing, 0
        self.hooks = [getattr(one, kind) for one in model.modules() for kind in HOOKS]
        # The graph reads them where they are now.
        self.read = [*model.parameters(), *model.buffers()]
        self.places = self._places()
        if not self.holds():
            raise RuntimeError("layers or parameters have hooks")
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        torch.manual_seed(torch.initial_seed())
        losses, gradients = self._pass(batch)
        used = [number for number, one in enumerate(gradients) if one is not None]
        self.parameters, gradients = (
            [given[number] for number in used] for given in (self.parameters, gradients)
        )
        self.batch = tree_map(lambda one: one.clone() if isinstance(one, Tensor) else one, batch)
        gc.collect()  # what is left of a pass would tie the next one to its stream
        self.replay, (self.losses, self.gradients), _ = capture(
            lambda: self._pass(self.batch), None
        )
        torch.manual_seed(torch.initial_seed())
        self(batch)
        off = max(_deviation(self.losses, losses), _deviation(self.gradients, gradients))
        if not off <= DEVIATION:
            raise RuntimeError(f"it deviates by {off:.2g} of the norm")

    def _pass(self, batch: dict) -> tuple[list[Tensor], list[Tensor | None]]:
        """Return the two losses, and the gradients."""
        loss, nll = self.model(packed=batch, smoothing=self.smoothing)
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return [loss.detach(), nll], list(gradients)

    def _places(self) -> list[tuple[int, bool]]:
        return [(one.data_ptr(), one.requires_grad) for one in self.read]

    def holds(self) -> bool:
        """Return whether the model is as it was."""
        of_tensors = any(one._backward_hooks for one in self.read)
        return not of_tensors and not any(self.hooks) and self._places() == self.places

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
            raise RuntimeError("the graph has computed another batch since")
        return None, *torch._foreach_mul(ctx.graph.gradients, grad_loss)


def _deviation(found: list[Tensor], expected: list[Tensor]) -> float:
    """Return the norm of the difference as a share of the norm; NaN if something is not finite."""
    difference, whole = (
        torch.stack(torch._foreach_norm(one)).norm()
        for one in (torch._foreach_sub(found, expected), expected)
    )
    return float(difference / whole)
