"""Fixtures of the tests of the results page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gtransformer.lab.cli import report
from tests.lab.report.report_logs import scores


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder of results: the paper's figures and one run, of the demonstration, with its page."""
    folder = tmp_path_factory.mktemp("report") / "exp_logs"
    (folder / "demo").mkdir(parents=True)
    (folder / "about.yaml").write_text("machine: two made-up cores\n")
    (folder / "demo" / "about.yaml").write_text("about: a demonstration\ncorpus: generated documents\n")
    counts = {"misaligned_instances": 0}
    system = {"updates": 9, "validation_perplexity": 1.5, "scores": scores(55.5, 66.5), "counts": counts}
    results = {"systems": {"gtransformer": system}, "settings": {"changes": []}}
    (folder / "demo" / "results.json").write_text(json.dumps(results | {"command": "python -m gtransformer.cli.demo"}))
    assert report.main(["--logs", str(folder)]) == 0
    return folder


@pytest.fixture
def logs(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "exp_logs"))
