"""Progress of a training: log lines, checkpoints between fairseq's, and the conditions that end it."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from omegaconf import DictConfig

from gtransformer.optim.linear_by_time import ELAPSED
from gtransformer.optim.linear_by_time import NAME as BY_TIME
from gtransformer.tasks.checkpoints import LAST, Done, training_done

logger = logging.getLogger(__name__)


LOG_SECONDS = 10.0  # between two log lines
SAVE_SECONDS = 60.0  # between two checkpoints, at least
SAVE_FACTOR = 20  # times the duration of saving, at least: saving takes at most a twentieth of the time
GPU_PEAK = "gpu_peak_gib"  # in fairseq's log, with a GPU: the largest memory of tensors in any step


class Pace:
    """The progress of some work, and an estimate of the time that is left."""

    def __init__(self) -> None:
        self.began = self.logged = time.monotonic()
        self.first: float | None = None  # amount that was done at the first call of ``done``
        self.made = 0.0  # since then

    def is_time(self) -> bool:
        """Return whether a log line is due."""
        return time.monotonic() - self.logged >= LOG_SECONDS and not sys.stderr.isatty()

    def done(self, amount: float) -> None:
        """Record how much is done."""
        if self.first is None:
            self.first, self.began = amount, time.monotonic()
        self.made = amount - self.first

    def seconds(self, rest: float) -> float:
        """Return how long ``rest`` more will take at the pace so far; infinite if not known yet."""
        if rest <= 0:
            return 0.0
        return rest * (time.monotonic() - self.began) / self.made if self.made > 0 else float("inf")

    def log(self, what: str, left: float) -> None:
        """Log ``what`` and the time left in seconds; infinite: not known."""
        self.logged = time.monotonic()
        logger.info("%s%s", what, "" if left == float("inf") else f", about {spoken(left)} left")


class TrainingWatch:
    """Follows a training from update to update. Each process has one; only the first process logs and saves."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.saved, self.saving_took, self.validated = time.monotonic(), 0.0, 0

    def after_update(self, trainer: Any, iterator: Any) -> None:
        """Log the progress and save a checkpoint, each if due."""
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
            if rest < left == float("inf"):  # only patience ends the training
                what += f", the epoch ends in about {spoken(rest)}"
            self.pace.log(what, left)
        if time.monotonic() - self.saved >= max(SAVE_SECONDS, SAVE_FACTOR * self.saving_took) and should_save(
            trainer, iterator, updates
        ):
            began = time.monotonic()
            checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, iterator, None)
            self.saved = time.monotonic()
            self.saving_took = self.saved - began

    def validating(self) -> None:
        """Log the progress of a validation, if due."""
        self.validated += 1
        if self.pace.is_time():
            self.pace.log(f"validating, {self.validated} batches so far", float("inf"))

    def _seconds_left(self, trainer: Any, iterator: Any, updates: int) -> float:
        """Return the time until the first limit of a training; infinite if it has only patience.

        ``updates``: number of updates made.
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
    """Return the number of updates until the end of an epoch."""
    frequencies = trainer.cfg.optimization.update_freq
    frequency = frequencies[min(iterator.epoch, len(frequencies)) - 1]
    return ((epoch - iterator.epoch + 1) * len(iterator) - iterator.iterations_in_epoch) / frequency


def should_save(trainer: Any, iterator: Any, updates: int) -> bool:
    """Return whether to write a checkpoint in addition to fairseq's: not if fairseq is about to write one.

    After the last update fairseq validates before it saves. With a checkpoint of that update, a training interrupted in
    this validation would be taken for complete.
    """
    cfg, every, most = trainer.cfg.checkpoint, trainer.cfg.checkpoint.save_interval_updates, trainer.cfg.optimization
    complete = 0 < most.max_update <= updates or 0 < most.stop_time_hours * 3600 < trainer.cumulative_training_time()
    soon = complete or iterator.end_of_epoch() or (every > 0 and updates % every == 0)
    return not (cfg.no_save or cfg.no_last_checkpoints or soon)


def spoken(seconds: float) -> str:
    """Format seconds: ``75.2`` as ``1 min 15 s``, ``4000`` as ``1 h 6 min``."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


PROGRAMS = ("__main__", "fairseq_cli.train")  # module names of fairseq-train, by python -m and as a command


def used_patience() -> dict[str, Any]:
    """Return what a checkpoint stores of the patience: nothing before the first validation."""
    counter = _counter()
    if getattr(counter, "best", None) is None:
        return {}
    return {"patience": {"best": float(counter.best), "runs": int(counter.num_runs)}}


def resume_patience(state: Any) -> int:
    """Restore fairseq's counter from ``used_patience`` in a checkpoint.

    Returns how many validations in a row were no better; 0 if the checkpoint does not store it.
    """
    kept = state.get("patience") if isinstance(state, Mapping) else None
    if not isinstance(kept, Mapping):
        return 0
    counter = _counter()
    if counter is not None:
        counter.best, counter.num_runs = kept["best"], kept["runs"]
    return int(kept["runs"])


def _counter() -> Callable | None:
    """Return fairseq's function that counts validations, in the program that runs."""
    found = (getattr(sys.modules.get(name), "should_stop_early", None) for name in PROGRAMS)
    return next(filter(None, found), None)


BEFORE = "seconds_before"  # in a checkpoint: seconds of training of the model that this training started from


def count_own_hours(whole: DictConfig) -> float:
    """Let ``--stop-time-hours`` count this training alone. Return the training seconds of the model it started from.

    fairseq continues to count from the time in the checkpoint of the pretrained model. A learning rate that falls over
    hours falls over this training's hours. Exception: with ``--continue-once`` from a training with the same schedule
    it falls over the hours of both.

    Args:
        whole: all options of the training; they are changed. A resumed training finds the seconds in its checkpoint,
            or in the model that is still named.
    """
    saved, hours = whole.checkpoint, whole.optimization.stop_time_hours
    start = saved.get("continue_once") or saved.get("finetune_from_model")
    if saved.restore_file != LAST:
        start = saved.restore_file if saved.reset_optimizer else None
    done = training_done(Path(start)) if start is not None and Path(start).is_file() else Done(0, 0.0)
    before = done.seconds
    if saved.restore_file == LAST and Path(saved.save_dir, LAST).is_file():
        kept = training_done(Path(saved.save_dir, LAST)).task_state
        before = kept.get(BEFORE, before) if isinstance(kept, Mapping) else before
    if before and hours > 0:
        scheduler = whole.lr_scheduler
        continued = bool(saved.get("continue_once")) and ELAPSED in done.schedule
        if scheduler._name == BY_TIME and not continued:
            scheduler.decay_hours = scheduler.decay_hours or hours
        whole.optimization.stop_time_hours = hours + before / 3600
        logger.info("--stop-time-hours %g: after %.0f s of the model that this training starts from", hours, before)
    return before


def check_end(whole: DictConfig) -> None:
    """End a training that has made all its updates or has no patience left, before it makes another update.

    fairseq checks this only after an update. The case occurs if a training is interrupted after its last checkpoint. A
    resumed training keeps the patience that was left and, after ``--continue-once``, its best loss.

    Args:
        whole: all options of the training; they are changed.
    """
    saved, most = whole.checkpoint, whole.optimization
    path = Path(saved.save_dir, LAST)
    if saved.restore_file != LAST or saved.reset_optimizer or not path.is_file():
        return
    if saved.continue_once:  # then --reset-meters is for the meters of the other training
        saved.reset_meters = False
    done = training_done(path)
    comparable = done.metric == saved.best_checkpoint_metric and not saved.reset_meters
    worse = resume_patience(done.task_state) if comparable and saved.patience > 0 else 0
    if 0 < most.max_update <= done.updates or 0 < most.stop_time_hours * 3600 <= done.seconds:
        logger.info("%s has been trained for %d updates, %.0f s: training is complete", path, *done[:2])
    elif 0 < saved.patience <= worse:
        logger.info(
            "%s: %d validations in a row were no better than one before: training is complete; to continue, give more "
            "than --patience %d",
            path,
            worse,
            saved.patience,
        )
    else:
        return
    most.stop_min_lr = math.inf  # fairseq checks this limit before the first update
