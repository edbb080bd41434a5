"""Adam with a learning rate for new modules and a smaller one for pretrained ones (Bao et al. 2021, appendix C.1).

The paper has 5e-4 for global attention and gates, 1e-4 for the rest. Parameters have the two attributes that fairseq's
``composite`` optimizer reads: ``param_group``, a name, and ``optim_overrides``. That optimizer needs an optimizer and a
scheduler for each group, for which fairseq-train has no options. This one keeps the step of fairseq's Adam
(``FusedAdam``) and any scheduler, and scales the scheduler's learning rate by group.
"""

from __future__ import annotations

from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdamConfig
from torch import nn

from gtransformer.errors import UserError
from gtransformer.optim.fused_adam import FusedAdam

NAME = "adam_two_rates"
FRESH, PRETRAINED = "fresh", "pretrained"


def mark_parameter(
    parameter: nn.Parameter, fresh: bool, scale_pretrained: float, decay_fresh: float | None = None
) -> None:
    """Assign a parameter to a group; mixed precision copies both attributes (``--fp16-no-flatten-grads``).

    Args:
        scale_pretrained: factor of the scheduler's learning rate for pretrained parameters.
        decay_fresh: weight decay of fresh parameters; None is the optimizer's ``--weight-decay``.
    """
    parameter.param_group = FRESH if fresh else PRETRAINED
    overrides = {"lr_scale": 1.0 if fresh else scale_pretrained}
    if fresh and decay_fresh is not None:
        overrides["weight_decay"] = decay_fresh
    parameter.optim_overrides = {"optimizer": overrides}


@register_optimizer(NAME, dataclass=FairseqAdamConfig)  # the same configuration, so that it can replace "adam"
class AdamTwoRates(FusedAdam):
    """fairseq's Adam over the groups of ``mark_parameter``; the reported rate is the scheduler's, for new parameters.

    Raises UserError for a parameter without a group: then two rates would silently be one.
    """

    def __init__(self, cfg: FairseqAdamConfig, params):
        groups: dict[str, dict] = {}
        for parameter in params:
            if not hasattr(parameter, "param_group"):
                raise UserError(
                    f"--optimizer {NAME} needs --doc-double-lr and, with --fp16, --fp16-no-flatten-grads: without them "
                    "parameters are not assigned to one of the two learning rates"
                )
            given = {"params": [], **parameter.optim_overrides["optimizer"]}
            groups.setdefault(parameter.param_group, given)["params"].append(parameter)
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
