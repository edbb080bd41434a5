"""A learning rate that has come down to zero when the training's time is over (our choice).

Models that are trained for equal time are compared where each has ended, however many updates it made: a schedule over
updates would leave the slower ones at a higher rate.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import List  # noqa: UP035

import torch
import torch.distributed as dist
from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from gtransformer.errors import UserError

NAME = "linear_by_time"
ELAPSED = "elapsed"  # what checkpoints call the time that is spent


# The annotations must be types that fairseq's command line understands: List, not list.
@dataclass
class LinearByTimeConfig(FairseqDataclass):
    """Warm-up counts in updates, what follows in hours."""

    warmup_updates: int = field(
        default=4000, metadata={"help": "warm up the learning rate linearly for the first N updates"}
    )
    warmup_init_lr: float = field(
        default=-1, metadata={"help": "learning rate that the warm-up begins with (default: 0)"}
    )
    decay_hours: float = field(
        default=0.0,
        metadata={"help": "hours of this training after which the learning rate is zero (default: --stop-time-hours)"},
    )
    stop_time_hours: float = II("optimization.stop_time_hours")
    lr: List[float] = II("optimization.lr")  # noqa: UP006


@register_lr_scheduler(NAME, dataclass=LinearByTimeConfig)
class LinearByTime(FairseqLRScheduler):
    """min(1, warm-up) * lr * (1 - t / T): t is the time since the first update, T that of the whole training.

    Time goes on where an interrupted training is resumed, and restarts in one that starts from another's model; that
    of validation counts. One that goes on where another schedule's ended falls from the rate it had there. Of several
    processes the first one's clock is all of theirs, or their models would come apart.

    Raises UserError where no time is given.
    """

    def __init__(self, cfg: LinearByTimeConfig, optimizer):
        super().__init__(cfg, optimizer)
        hours = cfg.decay_hours or cfg.stop_time_hours
        if not hours > 0:
            raise UserError(f"--lr-scheduler {NAME}: the training has no end; give --stop-time-hours or --decay-hours")
        self.seconds = 3600 * hours
        self.highest = cfg.lr[0] if isinstance(cfg.lr, Collection) else cfg.lr
        self.lowest = max(0.0, cfg.warmup_init_lr)
        self.before, self.begun = 0.0, time.monotonic()
        self.takes_over, self.taken = False, None
        self.optimizer.set_lr(self.lowest)

    @property
    def elapsed(self) -> float:
        """Seconds since the first update, over all resumptions."""
        return self.before + time.monotonic() - self.begun

    def state_dict(self) -> dict:
        """fairseq's, the time that is spent, and the rate that another schedule has left."""
        taken = {} if self.taken is None else {"taken": self.taken}
        return super().state_dict() | {ELAPSED: self.elapsed} | taken

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from there; another schedule's state has no time."""
        super().load_state_dict(state_dict)
        self.before, self.begun = float(state_dict.get(ELAPSED, 0.0)), time.monotonic()
        self.takes_over, self.taken = ELAPSED not in state_dict, state_dict.get("taken")

    def step(self, epoch, val_loss=None) -> float:
        """The end of an epoch changes nothing."""
        super().step(epoch, val_loss)
        return self.optimizer.get_lr()

    def step_update(self, num_updates: int) -> float:
        """The rate behind so many updates, now."""
        if num_updates == 0:
            self.begun = time.monotonic()
        elif self.takes_over:  # the optimizer has been loaded by now
            self.taken = self.optimizer.get_lr()
        self.takes_over = False
        share = min(1.0, num_updates / self.cfg.warmup_updates) if self.cfg.warmup_updates > 0 else 1.0
        rate = self.lowest + share * (self.highest - self.lowest) if self.taken is None else self.taken
        self.optimizer.set_lr(rate * max(0.0, 1.0 - _of_the_first(self.elapsed) / self.seconds))
        return self.optimizer.get_lr()


def _of_the_first(seconds: float) -> float:
    """The first process's seconds, in all of them."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return seconds
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    shared = torch.tensor([seconds], dtype=torch.float64, device=device)
    dist.broadcast(shared, src=0)
    return shared.item()
