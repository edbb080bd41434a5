"""Where the runs of these tests lie."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch) -> Path:
    """The directory of all runs."""
    monkeypatch.setenv("GTRANSFORMER_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"
