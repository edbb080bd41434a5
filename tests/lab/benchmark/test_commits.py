"""Two checkouts measured in turn: the one that is slower is named, and mistakes are explained."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from gtransformer.lab.benchmark.systems import Setting
from gtransformer.lab.cli.benchmark_commits import cases, line, main, measure, summary
from tests.support import ROOT

pytestmark = pytest.mark.slow

TINY = ["--arch=gtransformer_mini", "--vocabulary=100", "--sentence=8", "--context=1", "--runs=1", "--least=0"]
SLOWER = """

def _slower(self, measured=System.train_step):
    result = measured(self)
    return result | {"seconds": 100 * result["seconds"]}


System.train_step = _slower
"""
SIZES = {"arch": "gtransformer_mini", "vocabulary": 100, "sentence": 8, "dropout": 0.0}


def test_a_planted_slowness_is_found(tmp_path: Path, capsys):
    """The copy trains as fast but says that it took a hundred times longer; the checkout itself is the old one.

    The copy is as checkouts were before there was ``lab``: its own benchmark is measured, not the installed one.
    """
    copy = tmp_path / "copy"
    package = copy / "gtransformer"
    shutil.copytree(ROOT / "gtransformer", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "lab" / "benchmark").rename(package / "benchmark")
    shutil.rmtree(package / "lab")
    for path in (package / "benchmark").glob("*.py"):
        path.write_text(path.read_text(encoding="utf-8").replace("gtransformer.lab.", "gtransformer."))
    with open(package / "benchmark" / "systems.py", "a", encoding="utf-8") as stream:
        stream.write(SLOWER)
    output = tmp_path / "new" / "result.json"
    assert main([str(ROOT), str(copy), *TINY, "--train=2x16", "--decode=", f"--output={output}"]) == 0
    result = json.loads(output.read_text())
    assert {"device", "machine", "commits", "command", "versions", "date"} <= result.keys()
    assert result["commits"]["new"] is None  # the copy is no checkout of git
    (row,) = result["rows"]
    assert (row["case"], row["method"], row["documents"], row["tokens"]) == ("train 2 x 16", "train_step", 2, 32)
    assert {turn: len(runs) for turn, runs in row["runs"].items()} == {"old": 1, "new": 1, "old again": 1}
    assert row["ratios"]["new"] > 5 * row["ratios"]["old again"] and not row["within"]
    assert min(row["peak_bytes"].values()) > 0 and min(row["tokens_per_second"].values()) > 0
    assert "SLOWER" in capsys.readouterr().out


def test_decoding_of_a_checkout_of_before_a_setting_was_there():
    """What it does not know concerns systems that it has not."""
    setting = asdict(Setting("packed", 16, 32, context=1, **SIZES)) | {"of_later": 1}
    result = measure(setting, "decode", {"documents": 2, "beam": 2}, 0)
    assert (result["tokens"], result["calls"]) == (2 * 16, 1) and result["seconds"] > 0


def measured(*seconds: float) -> list[dict]:
    return [{"seconds": one, "cpu_seconds": one / 2, "calls": 1, "tokens": 60, "peak_bytes": 1000} for one in seconds]


@pytest.mark.parametrize(
    ("new", "again", "spread", "allowed", "within"),
    [
        ((2.0, 2.08, 9.0), (2.0, 2.0, 2.0), 0.2, 0.05, True),
        ((2.0, 2.12, 9.0), (2.0, 2.0, 2.0), 0.2, 0.05, False),
        ((2.0, 2.12, 9.0), (1.0, 1.8, 3.0), 2.0 / 1.95, 0.1, True),  # the old one differs more from itself
        ((1.0, 1.0, 1.0), (2.0, 2.0, 2.0), 0.2, 0.05, True),  # faster
    ],
)
def test_ratios_of_medians(new, again, spread, allowed, within):
    row = summary({"old": measured(1.9, 2.0, 2.3), "new": measured(*new), "old again": measured(*again)})
    new_median, again_median = sorted(new)[1], sorted(again)[1]
    for ratios in (row["ratios"], row["cpu_ratios"]):
        assert ratios == {"new": pytest.approx(new_median / 2), "old again": pytest.approx(again_median / 2)}
    assert row["allowed"] == pytest.approx(allowed) and row["within"] is within
    assert row["spread"] == pytest.approx(spread, abs=1e-4)
    assert row["tokens_per_second"]["old"] == 30
    assert ("SLOWER" in line(row | {"case": "train 1 x 60"})) is not within


def refused(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_mistakes_are_explained(tmp_path: Path, capsys, monkeypatch):
    assert cases("1x512,16x2048") == [(1, 512), (16, 2048)] and cases("") == []
    output = f"--output={tmp_path / 'result.json'}"
    assert str(tmp_path) in refused(capsys, str(tmp_path), output)
    assert "--train" in refused(capsys, str(ROOT), "--train=", "--decode=", output)
    assert "--runs 0" in refused(capsys, str(ROOT), "--runs=0", output)
    assert "--seconds" in refused(capsys, str(ROOT), *TINY, "--seconds=0.01", output)
    systems = tmp_path / "gtransformer" / "benchmark" / "systems.py"  # where it was before
    systems.parent.mkdir(parents=True)
    systems.touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    (tmp_path / "other" / "gtransformer").mkdir(parents=True)
    (tmp_path / "other" / "gtransformer" / "__init__.py").touch()
    # Without __init__.py Python prefers a package that stands later on the path.
    assert f"the package of {tmp_path / 'other'}" in refused(capsys, str(tmp_path), *TINY, output)
    (tmp_path / "gtransformer" / "__init__.py").write_text("raise ImportError('half a commit')\n")
    assert "ImportError: half a commit" in refused(capsys, str(tmp_path), *TINY, output)
    assert not (tmp_path / "result.json").exists()
