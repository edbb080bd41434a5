"""The most memory of a GPU that a training takes, for its log: fairseq's ``gb_free`` is that of one update alone."""

from __future__ import annotations

import torch
from fairseq.logging import metrics

GPU_PEAK = "gpu_peak_gib"  # in fairseq's log; only where there is a GPU


class PeakMemory:
    """Around every step of training: keeps the most that tensors have taken in any of them.

    fairseq begins to count anew with every update.
    """

    def __init__(self):
        self.bytes = 0

    def __enter__(self) -> PeakMemory:
        return self

    def __exit__(self, *_: object) -> None:
        if torch.cuda.is_initialized():
            self.bytes = max(self.bytes, torch.cuda.max_memory_allocated())

    def log(self) -> None:
        """Among what fairseq logs of an update."""
        if self.bytes:
            metrics.log_scalar(GPU_PEAK, self.bytes / 2**30, weight=0, priority=1550, round=3)
