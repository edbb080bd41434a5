"""Peak memory of a GPU in a training's log; torch.cuda is stood in for."""

from __future__ import annotations

import pytest
import torch
from fairseq.logging import metrics

from gtransformer.tasks.peak_memory import GPU_PEAK, PeakMemory


def logged(peak: PeakMemory) -> dict:
    with metrics.aggregate(new_root=True) as found:
        peak.log()
    return found.get_smoothed_values()


def test_the_most_of_all_steps(monkeypatch):
    """fairseq resets torch's own peak after every update."""
    taken = iter([2**30, 5 * 2**29, 2**20])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: next(taken))
    peak = PeakMemory()
    for expected in (1.0, 2.5, 2.5):
        with peak:
            pass
        assert logged(peak)[GPU_PEAK] == expected


def test_a_step_that_runs_out_of_memory_counts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 7)
    peak = PeakMemory()
    with pytest.raises(RuntimeError), peak:
        raise RuntimeError("CUDA out of memory")
    assert peak.bytes == 7


def test_nothing_without_a_gpu():
    peak = PeakMemory()
    with peak:
        pass
    assert logged(peak) == {}
