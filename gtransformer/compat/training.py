"""Training: gradients with ``--amp``, the time that a resumed one has taken, checkpoints that cannot be written."""

from __future__ import annotations

import logging


def mend() -> None:
    """All of this file."""
    unscale_once()
    go_on_timing()
    quiet_saving()
    tell_of_updates()


def quiet_saving() -> None:
    """Leave the traceback out that fairseq logs where a checkpoint cannot be written: the error itself is said."""
    logging.getLogger("fairseq.checkpoint_utils").addFilter(_is_no_traceback)


def _is_no_traceback(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Traceback ")


def unscale_once() -> None:
    """Let gradients of a training with ``--amp`` be divided by the loss scale once.

    fairseq's ``AMPOptimizer`` tells the scaler to unscale PyTorch's optimizer, so that gradients can be clipped, but to
    step fairseq's around it: another one to the scaler, which divides once more. What is left lies far below Adam's eps
    as soon as the scale has grown, and next to nothing is learned.
    """
    from fairseq.optim import AMPOptimizer

    AMPOptimizer.clip_grad_norm = _clip_unscaled


def _clip_unscaled(self, max_norm, aggregate_norm_fn=None):
    """fairseq's ``AMPOptimizer.clip_grad_norm``, but for the optimizer whose gradients are said to be unscaled."""
    self.scaler.unscale_(self.fp32_optimizer)
    grad_norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
    if not grad_norm.isfinite().all():
        if self.next_loss_scale <= self.min_loss_scale:
            raise FloatingPointError(
                f"AMP: Minimum loss scale reached ({self.min_loss_scale}). Your loss is probably exploding. "
                f"Try restarting training or use fp32. {self.next_loss_scale}"
            )
        logging.getLogger("fairseq.optim.amp_optimizer").info(
            "AMP: overflow detected, setting scale to %s", self.next_loss_scale
        )
    return grad_norm


def go_on_timing() -> None:
    """Let the time in the log of a training (``wall``) go on from 0 when it is resumed in the middle of an epoch.

    fairseq restores the stopwatch from the checkpoint as one that stands, and every later line says 0.
    """
    from fairseq.logging.meters import StopwatchMeter

    StopwatchMeter.load_state_dict = _restore_running


def _restore_running(self, state_dict) -> None:
    """fairseq's ``StopwatchMeter.load_state_dict``, but that it runs."""
    self.sum, self.n, self.round = state_dict["sum"], state_dict["n"], state_dict.get("round")
    self.start()


def tell_of_updates() -> None:
    """Let a task that has a method ``after_update(trainer, epoch_iterator)`` know of every update that was made.

    fairseq tells a task nothing of it, and saves after so many updates alone, never after so many minutes: a training
    of large updates that is killed loses hours, unless it validates as often as it saves.
    """
    from fairseq.trainer import Trainer

    if not hasattr(Trainer.train_step, "fairseqs"):
        _get_train_iterator.fairseqs, Trainer.get_train_iterator = Trainer.get_train_iterator, _get_train_iterator
        _train_step.fairseqs, Trainer.train_step = Trainer.train_step, _train_step


def _get_train_iterator(self, *args, **options):
    """fairseq's, which is kept."""
    self.train_iterator = _get_train_iterator.fairseqs(self, *args, **options)
    return self.train_iterator


def _train_step(self, *args, **options):
    """fairseq's; then the task is told, unless the update was left out (an overflow) or batches come from elsewhere."""
    log = _train_step.fairseqs(self, *args, **options)
    told, iterator = getattr(self.task, "after_update", None), getattr(self, "train_iterator", None)
    if None not in (log, told, iterator):
        told(self, iterator)
    return log
