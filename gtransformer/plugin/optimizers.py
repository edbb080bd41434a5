"""Optimizers that fairseq lacks: Adam by PyTorch's fused kernel, and the same with two learning
rates.

fairseq's step is ``p -= lr * decay * p``, then ``p -= lr * sqrt(c2) / c1 * m / (sqrt(v) + eps)``
with ``c1 = 1 - beta1 ** t`` and ``c2 = 1 - beta2 ** t``. PyTorch's AdamW, ``lr / c1 * m / (sqrt(v)
/ sqrt(c2) + eps')``, is the same for ``eps' = eps / sqrt(c2)`` if both count the same updates; only
rounding differs.

Two rates (Bao et al. 2021, appendix C.1): 5e-4 for global attention and gates, 1e-4 for the rest.
Parameters have the two attributes that fairseq's ``composite`` optimizer reads: ``param_group``, a
name, and ``optim_overrides``. That optimizer needs an optimizer and a scheduler for each group, for
which fairseq-train has no options. This one keeps the step of ``FusedAdam`` and any scheduler, and
scales the scheduler's learning rate by group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch import Tensor, nn

from gtransformer.errors import UserError

FUSED, TWO_RATES = "fused_adam", "adam_two_rates"
FRESH, PRETRAINED = "fresh", "pretrained"
# Settings of a group of parameters that are this training's own.
OWN = ("betas", "eps", "weight_decay", "lr_scale", "fused")


# The same configuration, so that it can replace "adam".
@register_optimizer(FUSED, dataclass=FairseqAdamConfig)
class FusedAdam(FairseqAdam):
    """fairseq's Adam by ``FusedAdamW``.

    Parameters in half precision (``--memory-efficient-fp16``) keep fairseq's own, whose state is in
    float32.
    """

    _norm: tuple | None = None  # of the update before, and the event of its copy

    def __init__(self, cfg: FairseqAdamConfig, params):
        params = list(params)
        super().__init__(cfg, params)
        if not any(p.dtype in (torch.float16, torch.bfloat16) for p in self.params):
            self._optimizer = FusedAdamW(params, fused=True, **self.optimizer_config)

    def load_state_dict(self, state_dict, optimizer_overrides=None) -> None:
        """Load the state, but keep the settings of this training, where fairseq takes those of the
        checkpoint.
        """
        own = [{name: group[name] for name in OWN if name in group} for group in self.param_groups]
        # fairseq's own Adam counts only in the state of each parameter. With --fp16 or --amp the
        # trainer continues its checkpoints.
        steps = (int(one.get("step", 0)) for one in state_dict["state"].values())
        updates = {"updates": max(steps, default=0)}
        saved = state_dict["param_groups"]
        groups = [updates | group | settings for group, settings in zip(saved, own, strict=True)]
        super().load_state_dict(state_dict | {"param_groups": groups}, optimizer_overrides)

    def multiply_grads(self, c) -> None:
        """Multiply all gradients by a number, in few kernels."""
        gradients = [p.grad for p in self.params if p.grad is not None]
        if gradients:
            torch._foreach_mul_(gradients, c)

    def norm_before(self, norm: Tensor) -> Tensor:
        """Return the gradients' norm of the update before, on the host; the first one is its own.

        Reading ``norm``, this update's, would make the host wait for the GPU at every update. If it
        is not finite, the device skips the update, and the next one sees the norm.
        """
        self._optimizer.found_inf = (~norm.isfinite()).float()
        copied = torch.cuda.current_stream().record_event if norm.is_cuda else lambda: None
        now = norm.to("cpu", non_blocking=True), copied()
        (before, event), self._norm = self._norm or now, now
        if event is not None:
            event.synchronize()
        return before


class FusedAdamW(torch.optim.AdamW):
    """AdamW with the ``eps`` of fairseq's Adam: it is added before the correction of the second
    moment's bias.
    """

    supports_flat_params = True  # every parameter is updated element by element

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """Make one step; return the result of ``closure``."""
        given_eps = [group["eps"] for group in self.param_groups]
        for group, eps in zip(self.param_groups, given_eps, strict=True):
            # On the host: reading the optimizer's own count would wait for the GPU.
            group["updates"] = group.get("updates", 0) + 1
            group["eps"] = eps / math.sqrt(1 - group["betas"][1] ** group["updates"])
        loss = super().step(closure)
        for group, eps in zip(self.param_groups, given_eps, strict=True):
            group["eps"] = eps
        return loss


def mark_parameter(
    parameter: nn.Parameter, fresh: bool, scale_pretrained: float, decay_fresh: float | None = None
) -> None:
    """Assign a parameter to a group; mixed precision copies both attributes
    (``--fp16-no-flatten-grads``).

    Args:
        scale_pretrained: factor of the scheduler's learning rate for pretrained parameters.
        decay_fresh: weight decay of fresh parameters; None is the optimizer's ``--weight-decay``.
    """
    parameter.param_group = FRESH if fresh else PRETRAINED
    overrides = {"lr_scale": 1.0 if fresh else scale_pretrained}
    if fresh and decay_fresh is not None:
        overrides["weight_decay"] = decay_fresh
    parameter.optim_overrides = {"optimizer": overrides}


# The same configuration, so that it can replace "adam".
@register_optimizer(TWO_RATES, dataclass=FairseqAdamConfig)
class AdamTwoRates(FusedAdam):
    """fairseq's Adam over the groups of ``mark_parameter``; the reported rate is the scheduler's,
    for new parameters.

    Raises UserError for a parameter without a group: then two rates would silently be one.
    """

    def __init__(self, cfg: FairseqAdamConfig, params):
        groups: dict[str, dict] = {}
        for parameter in params:
            if not hasattr(parameter, "param_group"):
                raise UserError(
                    f"--optimizer {TWO_RATES} needs --doc-double-lr and, with --fp16, "
                    "--fp16-no-flatten-grads: without them parameters are not assigned to one of "
                    "the two learning rates"
                )
            new_group = {"params": [], **parameter.optim_overrides["optimizer"]}
            groups.setdefault(parameter.param_group, new_group)["params"].append(parameter)
        super().__init__(cfg, list(groups.values()))
        self.set_lr(self.optimizer_config["lr"])

    @property
    def supports_flat_params(self) -> bool:
        """False: a flat parameter would belong to both groups."""
        return False

    def get_lr(self) -> float:
        """Return the scheduler's learning rate."""
        group = max(self.param_groups, key=lambda group: group["lr_scale"])  # a scale may be 0
        return group["lr"] / group["lr_scale"]

    def set_lr(self, lr: float) -> None:
        """Set every group's learning rate from the scheduler's."""
        for group in self.param_groups:
            group["lr"] = lr * group["lr_scale"]
