"""Two checkouts measured in turn: the one that is slower is named, and mistakes are explained."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.lab.benchmark.commits import Case, read_cases, run_once, summary, table
from gtransformer.lab.benchmark.one_run import PASSES, VARIED, measure
from gtransformer.lab.benchmark.systems import Setting, System
from gtransformer.lab.cli.benchmark_commits import main
from gtransformer.optim.fused_adam import FusedAdam
from tests.support import ROOT

pytestmark = pytest.mark.slow

TINY = ["--arch=gtransformer_mini", "--vocabulary=100", "--sentence=8", "--context=1", "--runs=1", "--least=0"]
SLOWER = """

def _slower(self, measured=System.train_step):
    result = measured(self)
    return result | {"seconds": 100 * result["seconds"]}


System.train_step = _slower
"""


@pytest.mark.slow
def test_a_planted_slowness_is_found(tmp_path: Path, capsys):
    """The copy trains as fast but says that it took a hundred times longer; the checkout itself is the old one."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "gtransformer", copy / "gtransformer", ignore=shutil.ignore_patterns("__pycache__"))
    with open(copy / "gtransformer" / "benchmark" / "systems.py", "a", encoding="utf-8") as stream:
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


@pytest.mark.slow
def test_decoding_is_measured():
    setting = Setting("packed", 16, 32, context=1, arch="gtransformer_mini", vocabulary=100, sentence=8)
    result = run_once(ROOT, setting, Case("decode", 2, 16), beam=2, least=0, limit=300)
    assert (result["tokens"], result["calls"]) == (2 * 16, 1) and result["seconds"] > 0


def test_a_checkout_of_before_a_setting_was_there():
    """What it does not know concerns systems that it has not."""
    setting = Setting("packed", 16, 32, context=1, arch="gtransformer_mini", vocabulary=100, sentence=8)
    assert measure(asdict(setting) | {"of_later": 1}, "train_step", {}, 0)["tokens"] == 32


def test_passes_leave_the_optimizer_out(monkeypatch):
    """Its step is taken once, by the training step that makes the batch; gradients are made anew by every call."""
    systems, steps = [], []
    build, step = System.__init__, FusedAdam.step
    monkeypatch.setattr(System, "__init__", lambda self, setting: (build(self, setting), systems.append(self))[0])
    monkeypatch.setattr(
        FusedAdam, "step", lambda self, *given, **named: (steps.append(1), step(self, *given, **named))[1]
    )
    setting = Setting("packed", 16, 32, arch="gtransformer_mini", vocabulary=100, sentence=8, dropout=0.0)
    result = measure(asdict(setting), PASSES, {}, 0)
    assert (result["tokens"], result["calls"], len(steps)) == (32, 1, 1) and result["cpu_seconds"] > 0
    (system,) = systems
    found = [parameter.grad.clone() for parameter in system.model.parameters()]
    system.model.zero_grad()
    system.criterion(system.model, system.batch)[0].backward()
    for one, parameter in zip(found, system.model.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad)


def test_varied_passes_have_documents_of_other_lengths(monkeypatch):
    made, make = [], System._batch
    monkeypatch.setattr(System, "_batch", lambda self, count: made.append(make(self, count)) or made[-1])
    setting = Setting("packed", 50, 100, arch="gtransformer_mini", vocabulary=100, sentence=8, dropout=0.0)
    assert measure(asdict(setting), VARIED, {}, 0.2)["tokens"] == 200
    lengths = [batch["target"].shape[1] for batch in made[1:]]  # the first is that of the warm-up
    assert len(set(lengths)) > 1 and all(40 <= length <= 60 for length in lengths)
    assert all(sum(pair) == 100 for pair in zip(lengths[::2], lengths[1::2], strict=True))
    assert all(len(batch["target"]) == 2 for batch in made)


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
    line = table([row | {"case": "train 1 x 60"}]).splitlines()[1]
    assert f"{new_median / 2:.3f}" in line and ("SLOWER" in line) is not within


def test_cases():
    assert read_cases("1x512,16x2048", "decode") == [Case("decode", 1, 512), Case("decode", 16, 2048)]
    assert read_cases("", "decode") == []
    for text in ("512", "0x5", "ax5", "1x2x3"):
        with pytest.raises(UserError, match=f"'{text}' is no case"):
            read_cases(text, "decode")


def refused(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_mistakes_are_explained(tmp_path: Path, capsys):
    output = f"--output={tmp_path / 'result.json'}"
    assert "no checkout of this package" in refused(capsys, str(tmp_path), output)
    assert "nothing to measure" in refused(capsys, str(ROOT), "--train=", "--decode=", output)
    assert "--runs 0: give at least 1" in refused(capsys, str(ROOT), "--runs=0", output)
    systems = tmp_path / "gtransformer" / "benchmark" / "systems.py"
    systems.parent.mkdir(parents=True)
    systems.write_text("")
    (tmp_path / "gtransformer" / "__init__.py").write_text("raise ImportError('half a commit')\n")
    line = refused(capsys, str(tmp_path), *TINY, output)
    assert line.startswith(f"error: train 1 x 512: {tmp_path} cannot be measured (ImportError: half a commit)")
    assert "takes more than 0 s; allow more with --seconds" in refused(
        capsys, str(tmp_path), *TINY, "--seconds=0.01", output
    )
    assert not (tmp_path / "result.json").exists()


def test_another_package_is_not_measured_in_its_place(tmp_path: Path, capsys, monkeypatch):
    """Without ``__init__.py`` Python prefers a package that stands later on the path."""
    (tmp_path / "meant" / "gtransformer" / "benchmark").mkdir(parents=True)
    (tmp_path / "meant" / "gtransformer" / "benchmark" / "systems.py").write_text("")
    (tmp_path / "other" / "gtransformer").mkdir(parents=True)
    (tmp_path / "other" / "gtransformer" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    line = refused(capsys, str(tmp_path / "meant"), *TINY, f"--output={tmp_path / 'result.json'}")
    assert f"the package of {tmp_path / 'other'} would be imported in its place" in line
