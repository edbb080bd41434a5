"""The most memory of a GPU that a training takes, for its log: fairseq's ``gb_free`` is that of one update alone."""

from __future__ import annotations

import torch
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask

GPU_PEAK = "gpu_peak_gib"  # in fairseq's log; only where there is a GPU


class MeasuredTask(FairseqTask):
    """A task that logs the most bytes which tensors have taken in any step of training.

    fairseq begins to count anew with every update.
    """

    gpu_peak = 0

    def train_step(self, *args, **kwargs):
        """As fairseq's."""
        try:
            return super().train_step(*args, **kwargs)
        finally:
            if torch.cuda.is_initialized():
                self.gpu_peak = max(self.gpu_peak, torch.cuda.max_memory_allocated())

    def reduce_metrics(self, logging_outputs, criterion) -> None:
        """As fairseq's, and the peak so far."""
        super().reduce_metrics(logging_outputs, criterion)
        if self.gpu_peak:
            metrics.log_scalar(GPU_PEAK, self.gpu_peak / 2**30, weight=0, priority=1550, round=3)
