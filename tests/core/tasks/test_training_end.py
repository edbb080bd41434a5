"""What a training says of its memory; limits that are none, and what is left of its patience."""

from __future__ import annotations

import functools
import logging
import math
import sys
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from omegaconf import OmegaConf

from gtransformer.tasks import training as training_end
from gtransformer.tasks.training import GPU_PEAK, check_end, count_own_hours, should_save
from tests.support import tiny_task


def start(monkeypatch):
    """What counts in the program of a training that is started again: fairseq's has its count in attributes."""
    counter = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(should_stop_early=counter))
    return counter


def whole(folder, patience=3, metric="loss", reset=False, came_from=None):
    """All options of a training, as far as its end depends on them."""
    return OmegaConf.create({
        "optimization": {"max_update": 100, "max_epoch": 0, "stop_time_hours": 0.0, "stop_min_lr": -1.0},
        "checkpoint": {"save_dir": str(folder), "restore_file": "checkpoint_last.pt", "reset_optimizer": False,
                       "reset_meters": reset, "patience": patience, "best_checkpoint_metric": metric,
                       "continue_once": came_from},
    })  # fmt: skip


@pytest.fixture
def task(dictionary):
    return tiny_task(dictionary)


@pytest.mark.parametrize(
    ("runs", "options", "counted", "ends"),
    [
        (3, {}, True, True),
        (2, {}, True, False),
        (3, {"patience": 4}, True, False),
        (3, {"patience": -1}, False, False),
        (3, {"metric": "bleu"}, False, False),
        (3, {"reset": True}, False, False),
        (3, {"reset": True, "came_from": "another.pt"}, True, True),  # whose meters are meant
    ],
)
def test_patience_goes_on_in_a_new_process(tmp_path, monkeypatch, caplog, task, runs, options, counted, ends):
    """A training that it has ended makes no update; one that it has not goes on with what was left of it."""
    # Commands of other tests make it quiet, and hydra's turn off what there was before.
    monkeypatch.setattr(training_end.logger, "disabled", False)
    caplog.set_level(logging.INFO, training_end.logger.name)
    counter = start(monkeypatch)
    assert task.state_dict() == {}  # before the first validation
    counter.best, counter.num_runs = 4.5, runs
    state = {"optimizer_history": [{"num_updates": 7}], "task_state": task.state_dict(), "cfg": whole(tmp_path)}
    torch.save(state, tmp_path / "checkpoint_last.pt")
    counter, again = start(monkeypatch), whole(tmp_path, **options)
    check_end(again)
    assert vars(counter) == ({"best": 4.5, "num_runs": runs} if counted else {})
    assert (again.optimization.stop_min_lr == math.inf) == ends
    assert (f"{runs} validations in a row were no better than one before: training is complete" in caplog.text) == ends


def test_what_was_counted_before_a_training_without_patience_is_stale(tmp_path, monkeypatch, task):
    """One with patience stops, one without goes on and gets better, the next with patience counts again."""
    counter = start(monkeypatch)
    counter.best, counter.num_runs = 4.5, 2
    state = {"optimizer_history": [{"num_updates": 7}], "task_state": task.state_dict(), "cfg": whole(tmp_path, 2)}
    torch.save(state, tmp_path / "checkpoint_last.pt")
    counter, without = start(monkeypatch), whole(tmp_path, -1)
    check_end(without)
    assert task.state_dict() == {} and without.optimization.stop_min_lr == -1.0
    torch.save({**state, "task_state": task.state_dict(), "cfg": without}, tmp_path / "checkpoint_last.pt")
    counter, again = start(monkeypatch), whole(tmp_path, 2)
    check_end(again)
    assert not vars(counter) and again.optimization.stop_min_lr == -1.0


def test_a_checkpoint_from_before_says_nothing_of_patience(tmp_path, monkeypatch):
    torch.save({"optimizer_history": [{"num_updates": 7}], "cfg": whole(tmp_path)}, tmp_path / "checkpoint_last.pt")
    counter, again = start(monkeypatch), whole(tmp_path)
    check_end(again)
    assert not vars(counter) and again.optimization.stop_min_lr == -1.0


def timed(folder, hours=0.5, schedule="linear_by_time", decay=0.0, **named):
    """All options of a training of so many hours that starts from a model."""
    saved = {"restore_file": "checkpoint_last.pt", "continue_once": None, "finetune_from_model": None}
    return OmegaConf.create({
        "optimization": {"stop_time_hours": hours},
        "checkpoint": {"save_dir": str(folder / "own"), "reset_optimizer": False, **saved, **named},
        "lr_scheduler": {"_name": schedule, "decay_hours": decay},
    })  # fmt: skip


def trained(path, seconds, elapsed=None, **state):
    """A checkpoint of a model that was trained for so long; its rate fell with time, if ``elapsed``."""
    path.parent.mkdir(exist_ok=True)
    schedule = {} if elapsed is None else {"elapsed": elapsed}
    history = [{"num_updates": 7, "lr_scheduler_state": schedule}]
    extra = {"previous_training_time": seconds}
    torch.save({"model": {}, "extra_state": extra, "optimizer_history": history, **state}, path)
    return str(path)


@pytest.mark.parametrize(
    ("named", "hours", "decay"),
    [
        ({"finetune_from_model": "a.pt"}, 0.75, 0.5),
        ({"finetune_from_model": "a.pt", "decay": 2.0}, 0.75, 2.0),
        ({"finetune_from_model": "a.pt", "schedule": "inverse_sqrt"}, 0.75, 0.0),
        ({"continue_once": "a.pt"}, 0.75, 0.0),  # the rate fell, and goes on falling
        ({"continue_once": "b.pt"}, 0.75, 0.5),
        ({"restore_file": "a.pt", "reset_optimizer": True}, 0.75, 0.5),
        ({"restore_file": "a.pt"}, 0.5, 0.0),  # the very training goes on, with the hours that it has left
        ({"finetune_from_model": "gone.pt"}, 0.5, 0.0),
        ({"finetune_from_model": "a.pt", "hours": 0.0}, 0.0, 0.0),
        ({}, 0.5, 0.0),
    ],
)
def test_hours_are_those_of_this_training(tmp_path, named, hours, decay):
    """fairseq goes on counting from those of the model that training starts from; no limit, 0, stays none."""
    for name, elapsed in (("a.pt", 900.0), ("b.pt", None)):
        trained(tmp_path / name, 900.0, elapsed)
    paths = {key: str(tmp_path / value) if str(value).endswith(".pt") else value for key, value in named.items()}
    cfg = timed(tmp_path, **paths)
    count_own_hours(cfg)
    assert (cfg.optimization.stop_time_hours, cfg.lr_scheduler.decay_hours) == (pytest.approx(hours), decay)


def test_hours_of_a_training_that_is_resumed(tmp_path, task):
    """Its checkpoint knows what was before it, wherever its start is by now; one from before finds it there."""
    start = trained(tmp_path / "a.pt", 900.0)
    task.seconds_before = count_own_hours(timed(tmp_path, finetune_from_model=start))
    for state in (task.state_dict(), {}):
        trained(tmp_path / "own" / "checkpoint_last.pt", 1500.0, task_state=state)
        again = timed(tmp_path, finetune_from_model=start)
        assert count_own_hours(again) == 900.0 and again.optimization.stop_time_hours == pytest.approx(0.75)
    trained(tmp_path / "own" / "checkpoint_last.pt", 1500.0, task_state=task.state_dict())
    (tmp_path / "a.pt").unlink()
    again = timed(tmp_path, finetune_from_model=start)
    count_own_hours(again)
    assert again.optimization.stop_time_hours == pytest.approx(0.75) and again.lr_scheduler.decay_hours == 0.5


@pytest.mark.parametrize(
    ("updates", "hours", "more", "saves"),
    [
        (99, 0.0, {}, True),
        (99, 1.0, {}, True),
        (100, 0.0, {}, False),
        (99, 0.2, {}, False),
        (99, 0.0, {"no_save": True}, False),
        (99, 0.0, {"no_last_checkpoints": True}, False),
    ],
)
def test_the_last_update_is_saved_after_its_validation(updates, hours, more, saves):
    """By fairseq; else a training that is interrupted in it would seem complete. What is not to be saved is not."""
    saved = {"save_interval_updates": 0, "no_save": False, "no_last_checkpoints": False, **more}
    limits = {"max_update": 100, "stop_time_hours": hours}
    trainer = SimpleNamespace(
        cfg=OmegaConf.create({"checkpoint": saved, "optimization": limits}), cumulative_training_time=lambda: 1800.0
    )
    assert should_save(trainer, SimpleNamespace(end_of_epoch=lambda: False), updates) == saves


def test_peak_memory(monkeypatch, task):
    """The most of all steps, the one too that runs out of memory; fairseq resets torch's own peak every update."""
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
