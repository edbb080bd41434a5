"""Adam with a learning rate for new modules and a smaller one for pretrained ones (appendix C.1).

In the paper 5e-4 for global attention and gates, 1e-4 for all else. Which parameter is which is written on the
parameters, in the two attributes that fairseq's own ``composite`` optimizer reads: ``param_group``, a name, and
``optim_overrides``. That optimizer wants a whole optimizer and a scheduler configured for each group, which
fairseq-train has no options for; this one keeps the step of fairseq's Adam (``FusedAdam``) and whatever scheduler
there is, and scales what the scheduler says.
"""

from __future__ import annotations

import logging

from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdamConfig
from torch import nn

from gtransformer.errors import UserError
from gtransformer.optim.fused_adam import FusedAdam

logger = logging.getLogger(__name__)

NAME = "adam_two_rates"
FRESH, PRETRAINED = "fresh", "pretrained"


def mark_parameter(
    parameter: nn.Parameter, fresh: bool, scale_pretrained: float, decay_fresh: float | None = None
) -> None:
    """Say which group a parameter is in; mixed precision copies both attributes (``--fp16-no-flatten-grads``).

    Args:
        scale_pretrained: the pretrained parameters' learning rate over the scheduler's.
        decay_fresh: weight decay of fresh parameters; None is the optimizer's ``--weight-decay``.
    """
    parameter.param_group = FRESH if fresh else PRETRAINED
    overrides = {"lr_scale": 1.0 if fresh else scale_pretrained}
    if fresh and decay_fresh is not None:
        overrides["weight_decay"] = decay_fresh
    parameter.optim_overrides = {"optimizer": overrides}


@register_optimizer(NAME, dataclass=FairseqAdamConfig)  # the very same, so that "adam" can become this one
class AdamTwoRates(FusedAdam):
    """fairseq's Adam over the groups of ``mark_parameter``; the reported rate is the scheduler's, that of fresh ones.

    Raises UserError if no parameter is marked: then two rates would silently be one.
    """

    def __init__(self, cfg: FairseqAdamConfig, params):
        groups: dict[str, dict] = {FRESH: {"params": []}, PRETRAINED: {"params": []}}
        for parameter in params:
            name = getattr(parameter, "param_group", None)
            if name not in groups:
                raise UserError(
                    f"--optimizer {NAME} needs --doc-double-lr and, with --fp16, --fp16-no-flatten-grads: parameters "
                    "have to say which of the two learning rates is theirs"
                )
            groups[name]["params"].append(parameter)
            groups[name] |= parameter.optim_overrides["optimizer"]
        if not groups[FRESH]["params"]:
            logger.warning(
                "--doc-double-lr: this model has no new modules (global attention, gates, relative positions); all of "
                "it learns at the rate of pretrained ones"
            )
        super().__init__(cfg, [group for group in groups.values() if group["params"]])
        self.set_lr(self.optimizer_config["lr"])

    def load_state_dict(self, state_dict, optimizer_overrides=None) -> None:
        """fairseq's, but that each group has the scale and the weight decay that it is given now."""
        own = [{name: group[name] for name in ("lr_scale", "weight_decay")} for group in self.param_groups]
        super().load_state_dict(state_dict, optimizer_overrides)
        for group, settings in zip(self.param_groups, own, strict=True):
            group.update(settings)

    @property
    def supports_flat_params(self) -> bool:
        """No: a flat parameter would be of both groups."""
        return False

    def get_lr(self) -> float:
        """The scheduler's learning rate, from any group's."""
        group = self.param_groups[0]
        return group["lr"] / group["lr_scale"] if group["lr_scale"] else 0.0

    def set_lr(self, lr: float) -> None:
        """Give every group its share of the scheduler's learning rate."""
        for group in self.param_groups:
            group["lr"] = lr * group["lr_scale"]
