"""What is measured is a corpus that loads, in all kinds of instances."""

from __future__ import annotations

import json

import pytest

from gtransformer.lab.benchmark.loading import KINDS
from gtransformer.lab.cli.benchmark_loading import main

pytestmark = pytest.mark.slow


def test_loading_is_measured(tmp_path, capsys):
    output = tmp_path / "loading.json"
    options = ["--pairs", "1000", "--processes", "3", "--others", "2", "--max-tokens", "2000", "--output", str(output)]
    assert main(options) == 0
    result = json.loads(output.read_text())
    assert [run["kind"] for run in result["runs"]] == list(KINDS)
    assert [run["instances"] for run in result["runs"]] == [50, 75, 1000, 1000]
    assert all(run["batches"] > 10 and run["mib"]["epoch"] > 0 for run in result["runs"])
    assert len(capsys.readouterr().out.splitlines()) == len(KINDS)
    assert main([*options, "--pairs", "10"]) == 1
    assert "--pairs 10: give 40 or more" in capsys.readouterr().err
