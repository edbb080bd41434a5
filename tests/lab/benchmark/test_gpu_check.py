"""The check of a GPU, as far as a processor shows it."""

from __future__ import annotations

import json
import sys

from gtransformer.lab.cli import gpu_check
from gtransformer.run.recipe import load_recipe
from tests.core.run.locations import parse_training


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_parts_are_recorded(tmp_path, monkeypatch):
    parts = {
        "tests": (60, [script("print('3 passed, 1 skipped in 2 s')")]),
        "prepare": (60, [script("raise ValueError('no such text')")]),
        "late": (0, [script("import time; time.sleep(60)")]),
    }
    monkeypatch.setattr(gpu_check, "make_parts", lambda *given: parts)
    monkeypatch.setattr("gtransformer.lab.benchmark.measure.machine", dict)
    assert gpu_check.main(["--rehearse", "--output", str(tmp_path)]) == 1
    record = json.loads((tmp_path / "gpu_check.json").read_text())
    assert record["rehearsal"] and record["versions"]["torch"]
    assert record["parts"]["tests"]["figures"] == {"passed": 3, "skipped": 1}
    assert "no such text" in record["parts"]["prepare"]["output_tail"] and record["parts"]["late"]["failed"]


def test_trainings_have_options_that_their_programs_take(tmp_path):
    parts = gpu_check.make_parts(tmp_path, rehearse=False)
    for name in gpu_check.PRECISIONS:
        (command,) = parts[f"train_{name}"][1]
        changes = [word for before, word in zip(command, command[1:], strict=False) if before == "--set"]
        parse_training(load_recipe("demo", changes))
