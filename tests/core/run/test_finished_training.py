"""Finished trainings without a best checkpoint: what is kept, trained on, or refused when a recipe is run again."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from gtransformer.cli.run import build_parser
from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.run import run as module
from gtransformer.run.run import Run, make_run
from gtransformer.tasks.averaging import AVERAGE

AVERAGED = ("train.average-checkpoints=2", "train.no-epoch-checkpoints=", "train.keep-last-epochs=2")


@pytest.fixture
def finished(tmp_path: Path, monkeypatch):
    """A run whose training, called again, notes that; it leaves a last checkpoint which says what was best."""
    raw = tmp_path / "raw"
    raw.mkdir()

    def make(extra_state: dict, *changes: str) -> tuple[Run, list[str]]:
        line = ["cpu_tiny", str(raw), "train", "--output", str(tmp_path / "out")]
        args = build_parser().parse_args([*line, *(part for change in changes for part in ("--set", change))])
        args.extra = []
        run, did = make_run(args), []
        (run.prepared / "bin").mkdir(parents=True)
        (run.prepared / "bin" / "train.en-de.en.idx").touch()
        (run.prepared / "manifest.json").write_text("{}")

        def stage(name: str, command: list[str], directory: Path, results: dict) -> None:
            did.append(name)
            write_json(directory / f"{name}.json", {"stage": name, "command": command})
            file = AVERAGE if name == "average" else "checkpoint_last.pt"
            torch.save({"extra_state": extra_state}, directory / "checkpoints" / file)

        monkeypatch.setattr(module, "run_stage", stage)
        run.train()
        return run, did

    return make


@pytest.mark.parametrize("extra_state", [{}, {"best": math.nan}])
def test_where_there_never_was_a_best_it_is_trained_on(finished, extra_state):
    """Validation was off, or nan: fairseq finds nothing to do, and nothing is asked to be removed."""
    run, did = finished(extra_state)
    run.train()
    assert did == ["train"] * 2


def test_a_best_that_was_lost_is_refused(finished):
    run, _ = finished({"best": 1.0})
    with pytest.raises(UserError, match=r"checkpoint_best\.pt: missing or cut short, though the training was finished"):
        run.train()


def test_a_mean_needs_no_best(finished):
    run, did = finished({}, *AVERAGED)
    run.train()
    assert did == ["train", "average"]
    model, last = run.checkpoint, run.checkpoint.with_name("checkpoint_last.pt")
    model.unlink()
    run.train()
    assert did == ["train", "average", "average"]
    model.unlink()
    last.write_bytes(last.read_bytes()[:50])
    with pytest.raises(UserError, match=r"checkpoint_last\.pt: missing or cut short, though the training was finished"):
        run.train()
