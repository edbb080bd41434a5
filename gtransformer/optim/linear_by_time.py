"""A learning rate that reaches zero when the training's time is over (our choice).

It is for comparisons of models that are trained for equal time. A schedule over updates would leave slower models with
a higher rate.
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
ELAPSED = "elapsed"  # key in checkpoints: elapsed seconds


# fairseq's command line understands annotations like List, not list.
@dataclass
class LinearByTimeConfig(FairseqDataclass):
    """Options of ``LinearByTime``: warm-up in updates, decay in hours."""

    warmup_updates: int = field(
        default=4000, metadata={"help": "warm up the learning rate linearly for the first N updates"}
    )
    warmup_init_lr: float = field(default=-1, metadata={"help": "initial learning rate of the warm-up (default: 0)"})
    decay_hours: float = field(
        default=0.0,
        metadata={"help": "hours of this training after which the learning rate is zero (default: --stop-time-hours)"},
    )
    stop_time_hours: float = II("optimization.stop_time_hours")
    lr: List[float] = II("optimization.lr")  # noqa: UP006


@register_lr_scheduler(NAME, dataclass=LinearByTimeConfig)
class LinearByTime(FairseqLRScheduler):
    """min(1, warm-up) * lr * (1 - t / T): t is the time since the first update, T the time of the whole training.

    Time continues when a training resumes, and restarts when it starts from the model of another. Validation counts. A
    training that continues from another schedule starts from its last rate. All processes use the first process's
    clock; otherwise their models would differ.

    Raises UserError if no time is given, if it ends before the training does, and for several rates.
    """

    def __init__(self, cfg: LinearByTimeConfig, optimizer):
        super().__init__(cfg, optimizer)
        hours = cfg.decay_hours or cfg.stop_time_hours
        if not hours > 0:
            raise UserError(f"--lr-scheduler {NAME}: the training has no end; give --stop-time-hours or --decay-hours")
        if cfg.stop_time_hours > hours:
            raise UserError(
                f"--decay-hours {hours:g}: after that the learning rate would be 0 until --stop-time-hours "
                f"{cfg.stop_time_hours:g}; give at least as many hours, or leave it out"
            )
        rates = list(cfg.lr) if isinstance(cfg.lr, Collection) else [cfg.lr]
        if len(rates) > 1:
            raise UserError(f"--lr {rates}: --lr-scheduler {NAME} has one rate for all epochs; give one")
        self.seconds, self.highest = 3600 * hours, rates[0]
        self.lowest = max(0.0, cfg.warmup_init_lr)
        self.before, self.begun = 0.0, time.monotonic()
        self.takes_over, self.taken = False, None
        self.optimizer.set_lr(self.lowest)

    @property
    def elapsed(self) -> float:
        """Seconds since the first update, over all resumptions."""
        return self.before + time.monotonic() - self.begun

    def state_dict(self) -> dict:
        """Return fairseq's state, the elapsed time, and the last rate of an earlier schedule."""
        taken = {} if self.taken is None else {"taken": self.taken}
        return super().state_dict() | {ELAPSED: self.elapsed} | taken

    def load_state_dict(self, state_dict: dict) -> None:
        """Restore the state; that of another schedule has no time."""
        super().load_state_dict(state_dict)
        self.before, self.begun = float(state_dict.get(ELAPSED, 0.0)), time.monotonic()
        self.takes_over, self.taken = ELAPSED not in state_dict, state_dict.get("taken")

    def step(self, epoch, val_loss=None) -> float:
        """Return the learning rate, which does not change at the end of an epoch."""
        super().step(epoch, val_loss)
        return self.optimizer.get_lr()

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate after ``num_updates``, at this time."""
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
    """Return the first process's seconds in all processes."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return seconds
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    shared = torch.tensor([seconds], dtype=torch.float64, device=device)
    dist.broadcast(shared, src=0)
    return shared.item()
