"""Checkpoints say what their decoder's input begins with; those of before, which said nothing, are refused."""

from __future__ import annotations

import json
from argparse import Namespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.tasks.checkpoint_compatibility import check_beginning
from gtransformer.tasks.checkpoints import load_lazily
from gtransformer.tasks.trained import load_trained
from gtransformer.translation.export import find_sources, model_settings, read_checkpoint
from tests.support import PARITY

pytestmark = pytest.mark.slow


@pytest.fixture
def without(saved_model, tmp_path):
    """A checkpoint as this package wrote it before ``decoder_start``, and the corpus that it was trained on."""
    state = load_lazily(saved_model.parent / "checkpoint.pt")
    assert state["cfg"]["task"].pop("decoder_start") == "bos"
    path = tmp_path / "older.pt"
    torch.save(state, path)
    return path


def training(tmp_path, **checkpoint):
    """What the task knows of a training."""
    options = {"save_dir": str(tmp_path / "run"), "restore_file": "checkpoint_last.pt"}
    options |= {"finetune_from_model": None, "continue_once": None}
    return OmegaConf.create({"checkpoint": {**options, **checkpoint}})


def begin(whole):
    """A training begins, with whatever model."""
    check_beginning(Namespace(), Namespace(), whole)


def test_an_older_checkpoint_is_refused_wherever_it_is_loaded(saved_model, without):
    data = str(saved_model.parent / "prepared" / "bin")
    assert load_trained(saved_model.parent / "checkpoint.pt", data=data)
    with pytest.raises(UserError, match=rf"checkpoint {without} was trained by an older version .*; train it again"):
        load_trained(without, data=data)


def test_an_older_checkpoint_is_no_start_of_a_training(without, tmp_path):
    begin(training(tmp_path))  # nothing to go on from
    run = tmp_path / "run"
    run.mkdir()
    for option in ("finetune_from_model", "restore_file", "continue_once"):
        given = {option: str(without)}
        with pytest.raises(UserError, match=rf"checkpoint {without} was trained by an older version"):
            begin(training(tmp_path, **given))
    (run / "checkpoint_last.pt").write_bytes(without.read_bytes())
    with pytest.raises(UserError, match=r"run/checkpoint_last\.pt was trained by an older version"):
        begin(training(tmp_path))


def test_an_older_checkpoint_is_not_exported(saved_model, without, tmp_path):
    prepared = saved_model.parent / "prepared"
    with pytest.raises(UserError, match=rf"checkpoint {without} was trained by an older version"):
        model_settings(find_sources(prepared, prepared, without), read_checkpoint(without), None)


def test_sentence_models_of_other_tasks_may_be_started_from(without, tmp_path):
    state = load_lazily(without)
    state["cfg"]["task"]["_name"] = "translation"
    torch.save(state, tmp_path / "sentences.pt")
    begin(training(tmp_path, finetune_from_model=str(tmp_path / "sentences.pt")))


def test_the_releases_checkpoints_load(tmp_path):
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
    begin(training(tmp_path, restore_file=str(tmp_path / "release.pt")))
