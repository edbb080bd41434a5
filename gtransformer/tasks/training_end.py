"""Where a training ends: limits that are none, and one that is resumed when it was at its end."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gtransformer.errors import UserError
from gtransformer.models.common.config import check_sizes
from gtransformer.optim.linear_by_time import ELAPSED
from gtransformer.optim.linear_by_time import NAME as BY_TIME
from gtransformer.tasks.checkpoint_file import Done, training_done
from gtransformer.tasks.finetuning import LAST
from gtransformer.tasks.patience import resume_patience

logger = logging.getLogger(__name__)

LIMITS = ("max_update", "max_epoch", "stop_time_hours")
BEFORE = "seconds_before"  # in a checkpoint: what the model that the training started from was trained for
UNLIMITED = "stop_time_hours"  # below 0, too: fairseq asks whether it is above


def check_given(given: Any) -> None:
    """Raise UserError for options of fairseq-train, as its parser gives them, that no training can have."""
    check_sizes(given)
    check_limits(given)


def check_limits(options: Any) -> None:
    """Raise UserError for a negative limit, after which fairseq trains for one update, and for hours that are nan."""
    for name in LIMITS:
        value = getattr(options, name, None)
        if value is not None and not (value >= 0 or name == UNLIMITED and value < 0):
            raise UserError(f"--{name.replace('_', '-')} {value}: give more than 0, or 0 for no limit")


def count_own_hours(whole: DictConfig | None) -> float:
    """Let ``--stop-time-hours`` be those of this training alone; returns the seconds that its start was trained for.

    fairseq goes on counting from what the checkpoint of a pretrained model says. A learning rate that falls over hours
    falls over the training's own; over both, if a training is continued (``--continue-once``) whose rate fell, too.

    Args:
        whole: all options of the training, which are changed. One that is resumed has in its checkpoint what was before
            it, or finds it in the model that is still named.
    """
    if whole is None:
        return 0.0
    saved, hours = whole.checkpoint, whole.optimization.stop_time_hours
    start = saved.get("continue_once") or saved.get("finetune_from_model")
    if saved.restore_file != LAST:
        start = saved.restore_file if saved.reset_optimizer else None
    if start is None or not Path(start).is_file():
        start = None
    done = Done(0, 0.0) if start is None else training_done(Path(start))
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
        logger.info("--stop-time-hours %g: behind %.0f s of the model that this training starts from", hours, before)
    return before


def check_end(whole: DictConfig | None) -> None:
    """Let a training that has all its updates, or no patience left, end without another one: fairseq asks behind each.

    That happens where one is interrupted between its last checkpoint and the end of its program. ``whole``: all options
    of the training, which are changed. One that goes on has the patience that was left, and if it came from another by
    ``--continue-once`` still knows its best loss. Raises UserError as ``check_limits``.
    """
    if whole is None:
        return
    check_limits(whole.optimization)
    saved, most = whole.checkpoint, whole.optimization
    path = Path(saved.save_dir, LAST)
    if saved.restore_file != LAST or saved.reset_optimizer or not path.is_file():
        return
    if saved.continue_once:  # --reset-meters beside it means those of the other training
        saved.reset_meters = False
    done = training_done(path)
    comparable = done.metric == saved.best_checkpoint_metric and not saved.reset_meters
    # Without patience fairseq does not count: what was counted before is no longer so.
    counted = saved.patience > 0 and done.patience > 0
    worse = resume_patience(done.task_state) if comparable and counted else 0
    if 0 < most.max_update <= done.updates or 0 < most.stop_time_hours * 3600 <= done.seconds:
        logger.info("%s has been trained for %d updates, %.0f s: nothing is left to do", path, *done[:2])
    elif counted and saved.patience <= worse:
        logger.info(
            "%s: %d validations in a row were no better than one before: nothing is left to do; to train on, give more "
            "than --patience %d",
            path,
            worse,
            saved.patience,
        )
    else:
        return
    most.stop_min_lr = math.inf  # which fairseq asks before the first update
