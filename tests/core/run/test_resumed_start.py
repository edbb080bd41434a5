"""A recipe whose training goes on where another's ended."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gtransformer.run.run import make_run
from tests.core.run.test_run import commands, corpus, parse  # noqa: F401

pytestmark = pytest.mark.slow


def test_a_training_goes_on_where_another_recipe_s_ended(corpus, commands, tmp_path: Path):  # noqa: F811
    """Not from its model alone. A comparison names the checkpoint."""
    model = tmp_path / "sent.pt"
    torch.save({"model": {}, "extra_state": {"previous_training_time": 1800.0}}, model)
    named = ["--set", f"train.finetune-from-model={model}"]
    for options, pretrained in (([], model), (named, None)):
        run = make_run(parse("proof/sentences_resumed", corpus, "train", "--output", tmp_path, *options))
        run.pretrained = pretrained
        run.train()
    for command in commands:
        assert command[command.index("--continue-once") + 1] == str(model) and "--finetune-from-model" not in command
        assert command[command.index("--stop-time-hours") + 1] == "1" and "--reset-meters" in command
