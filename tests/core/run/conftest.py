"""Where the runs of these tests lie, and stages that are only noted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.run import run as module
from gtransformer.run.paths import RUNS
from tests.core.run.locations import Stages, write_raw


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch) -> Path:
    """The directory of all runs."""
    monkeypatch.setenv(RUNS, str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A raw corpus called tiny."""
    return write_raw(tmp_path / "raw" / "tiny")


@pytest.fixture
def stages(monkeypatch) -> Stages:
    """The stages that were run."""
    noted = Stages()
    monkeypatch.setattr(module, "run_stage", noted)
    return noted
