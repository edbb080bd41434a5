"""What long work says of itself at least every ten seconds, and keeps at least every minute.

Said where nothing else moves: on a terminal fairseq draws a bar. Kept is ``checkpoint_last.pt``, without a validation.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from fairseq import checkpoint_utils

logger = logging.getLogger(__name__)

SAY = 10.0  # seconds from line to line
KEEP = 60.0  # seconds of training from one checkpoint to the next,
SHARE = 20  # or so many times what writing one takes: no more than a twentieth of the time is for that


class Pace:
    """How far something is, and how long it may still take."""

    def __init__(self) -> None:
        self.began = self.said = time.monotonic()
        self.first: float | None = None  # how much was done when the first of it was
        self.made = 0.0  # since then

    def is_time(self) -> bool:
        """Whether something is to be said now."""
        return time.monotonic() - self.said >= SAY and not sys.stderr.isatty()

    def done(self, amount: float) -> None:
        """Note how much is done."""
        if self.first is None:
            self.first, self.began = amount, time.monotonic()
        self.made = amount - self.first

    def seconds(self, rest: float) -> float:
        """How long ``rest`` more will take at the pace so far; infinite where that cannot be said yet."""
        if rest <= 0:
            return 0.0
        return rest * (time.monotonic() - self.began) / self.made if self.made > 0 else float("inf")

    def say(self, what: str, left: float) -> None:
        """Say it; ``left``: seconds, infinite where they are not known."""
        self.said = time.monotonic()
        logger.info("%s%s", what, "" if left == float("inf") else f", about {spoken(left)} left")


class TrainingWatch:
    """Follows a training from update to update; each process has one, the first one speaks and saves."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.kept, self.took, self.validated = time.monotonic(), 0.0, 0

    def after_update(self, trainer: Any, iterator: Any) -> None:
        """Say how far training is, and keep it, if it is time to."""
        self.validated = 0
        updates = trainer.get_num_updates()
        self.pace.done(updates)
        if not trainer.is_data_parallel_master:
            return
        if self.pace.is_time():
            most = trainer.cfg.optimization
            end = f" of {most.max_update}" if most.max_update else ""
            share = iterator.iterations_in_epoch / max(1, len(iterator))
            what = f"update {updates}{end}, epoch {iterator.epoch} ({share:.0%})"
            left = self._seconds_left(trainer, iterator, updates)
            rest = self.pace.seconds(updates_to(trainer, iterator, iterator.epoch))
            if rest < left == float("inf"):  # nothing but patience ends it
                what += f", the epoch ends in about {spoken(rest)}"
            self.pace.say(what, left)
        if time.monotonic() - self.kept >= max(KEEP, SHARE * self.took) and is_kept_so(trainer, iterator, updates):
            began = time.monotonic()
            checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, iterator, None)
            self.kept = time.monotonic()
            self.took = self.kept - began

    def validating(self) -> None:
        """Say, where a validation takes long, that it goes on."""
        self.validated += 1
        if self.pace.is_time():
            self.pace.say(f"validating, {self.validated} batches so far", float("inf"))

    def _seconds_left(self, trainer: Any, iterator: Any, updates: int) -> float:
        """Until the first of a training's limits; infinite where it has none but patience.

        ``updates``: that were made.
        """
        most, left = trainer.cfg.optimization, [float("inf")]
        if most.max_update:
            left.append(self.pace.seconds(most.max_update - updates))
        if most.stop_time_hours > 0:
            left.append(max(0.0, most.stop_time_hours * 3600 - trainer.cumulative_training_time()))
        if most.max_epoch:
            left.append(self.pace.seconds(updates_to(trainer, iterator, most.max_epoch)))
        return min(left)


def updates_to(trainer: Any, iterator: Any, epoch: int) -> float:
    """How many updates it is to the end of an epoch."""
    frequencies = trainer.cfg.optimization.update_freq
    frequency = frequencies[min(iterator.epoch, len(frequencies)) - 1]
    return ((epoch - iterator.epoch + 1) * len(iterator) - iterator.iterations_in_epoch) / frequency


def is_kept_so(trainer: Any, iterator: Any, updates: int) -> bool:
    """Whether a checkpoint is to be written between those that fairseq writes, here by the first process alone.

    Not where fairseq is about to, nor where a checkpoint is gathered from all processes.
    """
    cfg, every = trainer.cfg.checkpoint, trainer.cfg.checkpoint.save_interval_updates
    gathered = trainer.is_fsdp or hasattr(trainer.optimizer.optimizer, "consolidate_state_dict")
    soon = iterator.end_of_epoch() or (every > 0 and updates % every == 0)
    return not (cfg.no_save or cfg.no_last_checkpoints or gathered or soon)


def spoken(seconds: float) -> str:
    """``75.2`` as ``1 min 15 s``, ``4000`` as ``1 h 6 min``."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
