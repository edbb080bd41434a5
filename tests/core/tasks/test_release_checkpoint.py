"""The release's checkpoints load, and a training begins from them."""

from __future__ import annotations

import json
from argparse import Namespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from gtransformer.tasks.checkpoint_compatibility import check_beginning
from gtransformer.tasks.trained import load_trained
from tests.support import PARITY

pytestmark = pytest.mark.slow


def test_a_checkpoint_of_the_release_loads(tmp_path):
    """They hold ``args`` and name no ``decoder_start``; what they read is what ours read."""
    release = PARITY / "search"
    for lang in ("en", "de"):
        lines = (release / "dict.txt").read_text()
        (tmp_path / f"dict.{lang}.txt").write_text(lines)
    args = Namespace(**json.loads((release / "args.json").read_text()))
    with np.load(release / "state.npz") as state:
        weights = {name: torch.from_numpy(state[name]) for name in state.files}
    checkpoint = {
        "args": args,
        "model": weights,
        "optimizer_history": [{"num_updates": 400, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save(checkpoint, tmp_path / "release.pt")
    model, task = load_trained(tmp_path / "release.pt", data=str(tmp_path))
    assert task.cfg.decoder_start == "bos" and model.cfg.encoder_ctxlayers == 1
    options = {"save_dir": str(tmp_path / "run"), "restore_file": str(tmp_path / "release.pt")}
    options |= {"finetune_from_model": None, "continue_once": None, "reset_optimizer": True}
    check_beginning(Namespace(), Namespace(), OmegaConf.create({"checkpoint": options}))
