"""Peak memory of a GPU in a training's log; torch.cuda and fairseq's own step are stood in for."""

from __future__ import annotations

import pytest
import torch
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask

from gtransformer.tasks.training import GPU_PEAK, MeasuredTask
from gtransformer.tasks.translation_doc import TranslationDocTask


@pytest.fixture
def task(monkeypatch) -> MeasuredTask:
    monkeypatch.setattr(FairseqTask, "train_step", lambda self, sample: sample())
    monkeypatch.setattr(FairseqTask, "reduce_metrics", lambda *_: None)
    return MeasuredTask(None)


def logged(task: MeasuredTask) -> dict:
    with metrics.aggregate(new_root=True) as found:
        task.reduce_metrics([], None)
    return found.get_smoothed_values()


def test_the_most_of_all_steps(monkeypatch, task):
    """fairseq resets torch's own peak after every update."""
    taken = iter([2**30, 5 * 2**29, 2**20])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: next(taken))
    for expected in (1.0, 2.5, 2.5):
        assert task.train_step(lambda: 7) == 7
        assert logged(task)[GPU_PEAK] == expected
    assert issubclass(TranslationDocTask, MeasuredTask)


def test_a_step_that_runs_out_of_memory_counts(monkeypatch, task):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 7)
    with pytest.raises(ZeroDivisionError):
        task.train_step(lambda: 1 / 0)
    assert task.gpu_peak == 7


def test_nothing_without_a_gpu(task):
    task.train_step(lambda: None)
    assert logged(task) == {}
