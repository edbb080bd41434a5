"""What a training says of its memory, and its own hours."""

from __future__ import annotations

import functools

import pytest
import torch
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from omegaconf import OmegaConf

from gtransformer.plugin.finetuning import add_hours_of_start
from gtransformer.plugin.task import GPU_PEAK
from tests.support import tiny_task


@pytest.mark.parametrize(
    ("named", "reset", "hours"),
    [
        ("continue_once", False, 0.75),
        ("finetune_from_model", False, 0.75),
        ("restore_file", False, 0.5),
        ("restore_file", True, 0.75),
    ],
)
def test_hours_are_those_of_this_training(tmp_path, named, reset, hours):
    """fairseq goes on counting from those of the model that training starts from."""
    start = tmp_path / "a.pt"
    torch.save({"model": {}, "extra_state": {"previous_training_time": 900.0}}, start)
    saved = {"restore_file": "checkpoint_last.pt", "continue_once": None, "finetune_from_model": None}
    saved["reset_optimizer"] = reset
    cfg = {"optimization": {"stop_time_hours": 0.5}, "checkpoint": saved | {named: str(start)}}
    whole = OmegaConf.create(cfg)
    add_hours_of_start(whole)
    assert whole.optimization.stop_time_hours == pytest.approx(hours)


def test_peak_memory(monkeypatch, dictionary):
    """The most of all steps, the one too that runs out of memory; fairseq resets torch's own peak every update."""
    task = tiny_task(dictionary)
    monkeypatch.setattr(FairseqTask, "train_step", lambda self, sample, *others: (1 / len(sample), 0, {}))
    monkeypatch.setattr(FairseqTask, "reduce_metrics", lambda *_: None)

    def peak() -> float | None:
        with metrics.aggregate(new_root=True) as found:
            task.reduce_metrics([], None)
        return found.get_smoothed_values().get(GPU_PEAK)

    step = functools.partial(task.train_step, model=torch.nn.Identity(), criterion=None, optimizer=None, update_num=0)
    step({"target": torch.tensor([[4]])})
    assert peak() is None  # without a GPU
    taken = iter([2**30, 5 * 2**29, 2**20, 2**32])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: next(taken))
    for expected in (1.0, 2.5, 2.5):
        step({"target": torch.tensor([[4]])})
        assert peak() == expected
    with pytest.raises(ZeroDivisionError):
        step({})
    assert peak() == 4.0
