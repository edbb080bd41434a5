"""A rate that falls over a training's time: by a clock of one's own, resumed, refused, and in two processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from fairseq import optim
from fairseq.optim.lr_scheduler import build_lr_scheduler
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.optim import linear_by_time as module


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self, now: float = 500.0):
        self.now = now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


def scheduler(lr: float = 0.5, rates: list[float] | None = None, **options):
    cfg = {"_name": "adam", "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "weight_decay": 0.0, "use_old_adam": False,
           "fp16_adam_stats": False, "tpu": False, "lr": [lr]}  # fmt: skip
    optimizer = optim.build_optimizer(OmegaConf.create(cfg), [torch.nn.Parameter(torch.zeros(1))])
    defaults = {
        "warmup_updates": 0,
        "warmup_init_lr": -1,
        "decay_hours": 0.0,
        "stop_time_hours": 1.0,
        "lr": rates or [lr],
    }
    return build_lr_scheduler(OmegaConf.create({"_name": module.NAME, **defaults, **options}), optimizer)


def test_it_is_zero_when_the_time_is_over(clock):
    schedule = scheduler()
    clock.now += 77  # until the first update, time does not count
    rates = [schedule.step_update(0)]
    for update, passed in enumerate((900, 1800, 600, 300, 300), 1):
        clock.now += passed
        rates.append(schedule.step_update(update))
    assert rates == pytest.approx([0.5, 0.375, 0.125, 0.5 / 12, 0, 0])
    assert schedule.optimizer.get_lr() == 0 and schedule.step(1, 2.5) == 0 and schedule.best == 2.5


def test_warm_up_counts_in_updates(clock):
    schedule = scheduler(warmup_updates=4, warmup_init_lr=0.1, decay_hours=2.0)
    schedule.step_update(0)
    assert [schedule.step_update(update) for update in (0, 1, 4, 5)] == pytest.approx([0.1, 0.2, 0.5, 0.5])
    clock.now += 3600
    assert schedule.step_update(2) == pytest.approx(0.15) and schedule.step_update(9) == pytest.approx(0.25)


def test_time_goes_on_in_a_resumed_training(clock):
    schedule = scheduler()
    schedule.step_update(0)
    clock.now += 1800
    state = schedule.state_dict()
    assert state == {"best": None, "elapsed": 1800}
    clock.now += 100_000
    resumed = scheduler()
    resumed.step_update(0)
    resumed.load_state_dict(state)
    clock.now += 900
    assert resumed.step_update(7) == pytest.approx(0.125)


def test_it_goes_on_from_the_rate_that_another_schedule_has_left(clock):
    """Without a warm-up, whatever --lr is; resumed, too."""
    schedule = scheduler(warmup_updates=400)
    schedule.step_update(0)
    schedule.load_state_dict({"best": 3.0})
    schedule.optimizer.set_lr(0.2)  # fairseq loads the optimizer next
    assert schedule.step_update(9) == pytest.approx(0.2) and schedule.best == 3.0
    clock.now += 900
    assert schedule.step_update(10) == pytest.approx(0.15)
    resumed = scheduler(warmup_updates=400)
    resumed.step_update(0)
    resumed.load_state_dict(schedule.state_dict())
    resumed.optimizer.set_lr(0.15)
    clock.now += 900
    assert resumed.step_update(10) == pytest.approx(0.1)


def test_without_an_end(clock):
    for hours in (0.0, -1.0):
        with pytest.raises(UserError, match="linear_by_time: the training has no end; give --stop-time-hours or"):
            scheduler(stop_time_hours=hours)
    assert scheduler(stop_time_hours=0.0, decay_hours=0.5).seconds == 1800


def in_process(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    schedule = scheduler(stop_time_hours=0.003)
    rates = [schedule.step_update(0)]
    for update in (1, 2):
        time.sleep(0.1 + 0.4 * rank)  # the second process is slower
        rates.append(schedule.step_update(update))
    torch.save(rates, Path(folder) / f"{rank}.pt")


def test_what_it_would_leave_out(clock):
    with pytest.raises(UserError, match="--decay-hours 1: .* until --stop-time-hours 5;"):
        scheduler(decay_hours=1.0, stop_time_hours=5.0)
    with pytest.raises(UserError, match="one rate for all epochs"):
        scheduler(rates=[0.5, 0.1])


@pytest.mark.slow
def test_processes_have_one_clock(tmp_path):
    processes.start_processes(in_process, (str(tmp_path),), nprocs=2, start_method="fork")
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert first == second and first[0] > first[1] > first[2] > 0
