"""fairseq's Adam by PyTorch's fused kernel, on the CPU and on GPUs.

fairseq's step is ``p -= lr * decay * p``, then ``p -= lr * sqrt(c2) / c1 * m / (sqrt(v) + eps)`` with
``c1 = 1 - beta1 ** t`` and ``c2 = 1 - beta2 ** t``. PyTorch's AdamW, ``lr / c1 * m / (sqrt(v) / sqrt(c2) + eps')``, is
the same for ``eps' = eps / sqrt(c2)``; only rounding differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig

NAME = "fused_adam"
OWN = ("betas", "eps", "weight_decay", "lr_scale")  # settings of a group of parameters that are this training's own


@register_optimizer(NAME, dataclass=FairseqAdamConfig)  # the same configuration, so that it can replace "adam"
class FusedAdam(FairseqAdam):
    """fairseq's Adam by ``FusedAdamW``.

    Parameters in half precision (``--memory-efficient-fp16``) keep fairseq's own, whose state is in float32.
    """

    def __init__(self, cfg: FairseqAdamConfig, params):
        params = list(params)
        super().__init__(cfg, params)
        if not any(p.dtype in (torch.float16, torch.bfloat16) for p in self.params):
            self._optimizer = FusedAdamW(params, fused=True, **self.optimizer_config)

    def load_state_dict(self, state_dict, optimizer_overrides=None) -> None:
        """Load the state, but keep the settings of this training, where fairseq takes those of the checkpoint."""
        own = [{name: group[name] for name in OWN if name in group} for group in self.param_groups]
        super().load_state_dict(state_dict, optimizer_overrides)
        for group, settings in zip(self.param_groups, own, strict=True):
            group.update(settings)

    @property
    def supports_flat_params(self) -> bool:
        """True: every parameter is updated element by element."""
        return True


class FusedAdamW(torch.optim.AdamW):
    """AdamW with the ``eps`` of fairseq's Adam: it is added before the correction of the second moment's bias."""

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """Make one step; return the result of ``closure``."""
        given = [group["eps"] for group in self.param_groups]
        for group, eps in zip(self.param_groups, given, strict=True):
            group["updates"] = group.get("updates", 0) + 1  # on the host: reading the state would wait for a GPU
            group["eps"] = eps / math.sqrt(1 - group["betas"][1] ** group["updates"])
        loss = super().step(closure)
        for group, eps in zip(self.param_groups, given, strict=True):
            group["eps"] = eps
        return loss
