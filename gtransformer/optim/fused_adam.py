"""fairseq's Adam in one pass over the parameters: PyTorch's fused kernel, on the CPU and on GPUs.

fairseq's own needs seven passes for a step, and two before it: one to divide the gradients by the number of tokens, one
to clip them. Here both become a factor that the kernel applies.

fairseq's step is ``p -= lr * decay * p``, then ``p -= lr * sqrt(c2) / c1 * m / (sqrt(v) + eps)`` with
``c1 = 1 - beta1 ** t`` and ``c2 = 1 - beta2 ** t``. PyTorch's AdamW, ``lr / c1 * m / (sqrt(v) / sqrt(c2) + eps')``, is
the same for ``eps' = eps / sqrt(c2)``; only rounding differs. The state is fairseq's, so a training can resume with
either optimizer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import torch
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from torch import Tensor
from torch.optim.adamw import adamw

from gtransformer.errors import UserError

NAME = "fused_adam"


@register_optimizer(NAME, dataclass=FairseqAdamConfig)  # the same configuration, so that it can replace "adam"
class FusedAdam(FairseqAdam):
    """fairseq's Adam by ``OnePassAdam``; factors of the gradients are stored until the step.

    Raises UserError for ``--use-old-adam`` and ``--fp16-adam-stats``, which need another implementation.
    """

    def __init__(self, cfg: FairseqAdamConfig, params):
        FairseqOptimizer.__init__(self, cfg)  # FairseqAdam.__init__ would choose another implementation
        for option in ("use_old_adam", "fp16_adam_stats"):
            if getattr(cfg, option, False):
                raise UserError(
                    f"--{option.replace('_', '-')} is for --optimizer adam, not for the fused one: "
                    "leave it out, or choose --optimizer adam without --doc-double-lr"
                )
        self._optimizer = OnePassAdam(params, **self.optimizer_config)

    def multiply_grads(self, c: float | Tensor) -> None:
        """Multiply the gradients by ``c`` in the next step; the tensors do not change."""
        self.optimizer.factor = self.optimizer.factor * c

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return the norm of all gradients; the next step scales them down to ``max_norm`` (0: does not)."""
        norm = super().clip_grad_norm(0, aggregate_norm_fn) * self.optimizer.factor
        if max_norm > 0:
            self.multiply_grads((max_norm / (norm + 1e-6)).clamp(max=1))
        return norm

    def step(self, closure: Callable | None = None, scale: float | Tensor = 1.0, groups=None) -> None:
        """Make a step with the gradients divided by ``scale`` and multiplied by the stored factor."""
        factor, self.optimizer.factor = self.optimizer.factor, 1.0
        self.optimizer.step(closure, scale=scale / factor)


# Checkpoints store the name of the optimizer's class, and fairseq resumes only with the same name.
FusedAdam.__name__ = FairseqAdam.__name__


class OnePassAdam(Adam):
    """fairseq's Adam with the same options and state, whose steps use the fused kernel if possible.

    The kernel needs float32 and dense gradients, on the CPU or a GPU. Else the step is fairseq's, for example with
    ``--memory-efficient-fp16``, whose parameters are in half precision. ``supports_step_with_scale`` is not set: with
    it, fairseq's ``FP16Optimizer`` with ``--bf16`` would accumulate the factors of all steps.

    ``factor`` is ``FusedAdam``'s. It is stored here and reset with the gradients: with ``--amp``, a step with an
    overflow is skipped, and only this optimizer is asked to reset gradients.
    """

    factor: float | Tensor = 1.0

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients and their factor."""
        self.factor = 1.0
        super().zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable | None = None, scale: float | Tensor = 1.0):
        """Make one step with the gradients divided by ``scale``; return the result of ``closure``."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if all(_fits(p) for group in self.param_groups for p in group["params"] if p.grad is not None):
            for group in self.param_groups:
                self._fused_step(group, scale)
            return loss
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(scale)
        super().step()
        return loss

    def _fused_step(self, group: dict, scale: float | Tensor) -> None:
        beta1, beta2 = group["betas"]
        alike = defaultdict(list)  # parameters by device and number of steps, counted from the first gradient
        for p in group["params"]:
            if p.grad is not None:
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                alike[p.device, state["step"]].append(p)
        for (device, step), parameters in alike.items():
            states = [self.state[p] for p in parameters]
            scaled = isinstance(scale, Tensor) or scale != 1.0
            adamw(
                parameters,
                [p.grad for p in parameters],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                list(torch.full((len(states),), step - 1.0, device=device).unbind()),
                fused=True,
                grad_scale=_as_tensor(scale, device) if scaled else None,
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"] / math.sqrt(1 - beta2**step),
                maximize=False,
            )


def _as_tensor(number: float | Tensor, device: torch.device) -> Tensor:
    """Return a number as a tensor, created on the device: copying would synchronise with a GPU."""
    if isinstance(number, Tensor):
        return number.to(device, torch.float32)
    return torch.full((), number, dtype=torch.float32, device=device)


def _fits(p: Tensor) -> bool:
    """Return whether the kernel can update a parameter with this gradient."""
    return (
        p.dtype == p.grad.dtype == torch.float32
        and p.device.type in ("cpu", "cuda")
        and p.grad.layout == torch.strided
        and p.is_contiguous()
        and p.grad.is_contiguous()
    )
