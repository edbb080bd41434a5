"""What a training says of its memory, and its own hours."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from gtransformer.plugin.finetuning import add_hours_of_start


@pytest.mark.parametrize(
    ("named", "reset", "hours"),
    [
        ("continue_once", False, 0.75),
        ("finetune_from_model", False, 0.75),
        ("restore_file", False, 0.5),
        ("restore_file", True, 0.75),
    ],
)
def test_hours_are_those_of_this_training(named, reset, hours):
    """fairseq goes on counting from those of the model that training starts from."""
    saved = {
        "restore_file": "checkpoint_last.pt",
        "continue_once": None,
        "finetune_from_model": None,
    }
    saved["reset_optimizer"] = reset
    cfg = {"optimization": {"stop_time_hours": 0.5}, "checkpoint": saved | {named: "a.pt"}}
    whole = OmegaConf.create(cfg)
    add_hours_of_start(whole, {"extra_state": {"previous_training_time": 900.0}})
    assert whole.optimization.stop_time_hours == pytest.approx(hours)
