"""Where a training ends: limits that are none, and one that is resumed when it was at its end."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gtransformer.errors import UserError
from gtransformer.models.common.config import check_sizes
from gtransformer.tasks.checkpoint_file import training_done
from gtransformer.tasks.finetuning import LAST
from gtransformer.tasks.patience import resume_patience

logger = logging.getLogger(__name__)

LIMITS = ("max_update", "max_epoch", "stop_time_hours")
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
