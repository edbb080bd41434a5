"""A recipe whose training goes on where another's ended."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gtransformer.experiments.commands import BY_TIME, ELAPSED
from gtransformer.experiments.run import make_run
from gtransformer.optim.linear_by_time import ELAPSED as KEPT
from gtransformer.optim.linear_by_time import NAME
from tests.unit.experiments.test_run import commands, corpus, parse  # noqa: F401

pytestmark = pytest.mark.slow


def test_a_training_goes_on_where_another_recipe_s_ended(corpus, commands, tmp_path: Path):  # noqa: F811
    """Not from its model alone; the hours are its own as in fine-tuning. A comparison names the checkpoint."""
    model = tmp_path / "sent.pt"
    torch.save({"model": {}, "extra_state": {"previous_training_time": 1800.0}}, model)
    named = ["--set", f"train.finetune-from-model={model}"]
    for options, pretrained in (([], model), (named, None)):
        run = make_run(parse("proof/sentences_resumed", corpus, "train", "--output", tmp_path, *options))
        run.pretrained = pretrained
        run.train()
    for command in commands:
        assert command[command.index("--continue-once") + 1] == str(model) and "--finetune-from-model" not in command
        assert command[command.index("--stop-time-hours") + 1] == "1.5" and "--reset-meters" in command


def test_a_rate_that_falls_over_hours_falls_over_its_own(corpus, commands, tmp_path: Path):  # noqa: F811
    """That of a training which is gone on with falls over both, if it fell before: it knows what is behind it."""
    assert (BY_TIME, ELAPSED) == (NAME, KEPT), "the room of experiments does not import that of the scheduler"
    model, other = tmp_path / "sent.pt", tmp_path / "other.pt"
    for path, schedule in ((model, {"best": None, ELAPSED: 1800.0}), (other, {"best": None})):
        history = [{"num_updates": 7, "lr_scheduler_state": schedule}]
        state = {"model": {}, "extra_state": {"previous_training_time": 1800.0}, "optimizer_history": history}
        torch.save(state, path)
    changes = [f"train.lr-scheduler={BY_TIME}", "train.stop-time-hours=0.25", f"train.finetune-from-model={model}"]
    on = "train.continue-once=start"
    for more in ([], ["train.decay-hours=2"], [on], [on, f"train.finetune-from-model={other}"]):
        options = [argument for change in [*changes, *more] for argument in ("--set", change)]
        make_run(parse("cpu_small_finetune", corpus, "train", "--output", tmp_path, *options)).train()
    hours = [dict(zip(command, command[1:], strict=False)) for command in commands]
    assert [one["--stop-time-hours"] for one in hours] == ["0.75"] * 4
    assert [one.get("--decay-hours") for one in hours] == ["0.25", "2", None, "0.25"]
