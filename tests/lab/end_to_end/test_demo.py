"""The demonstration on a tiny budget: it runs through, says what it wrote, and run again it keeps what is done.

Models of one layer, which have learnt nothing after 8 updates.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from tests.processes import run_group

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
pytestmark = pytest.mark.timeout(2000)


def demo(output: Path, *options: str, timeout: float = 1800) -> subprocess.CompletedProcess:
    """Run the command that gtransformer demo runs after set-up."""
    command = [sys.executable, "-m", "gtransformer.lab.cli.demo", "--output", str(output), "--compare", *options]
    return run_group(command, timeout, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=output.parent)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """The demonstration on the tiny budget: its directory and what it printed."""
    output = tmp_path_factory.mktemp("demo") / "out"
    done = demo(output, *OPTIONS)
    assert done.returncode == 0, done.stdout + done.stderr
    return output, done


UPDATES = 8
CHANGES = """
train.encoder-layers=1 train.decoder-layers=1 train.encoder-ctxlayers=1 train.decoder-ctxlayers=1
train.cross-ctxlayers=1 train.max-tokens=1000 train.warmup-updates=4 train.validate-interval-updates=4
train.save-interval-updates=4 train.log-interval=2 generate.beam=1 generate.max-len-a=0 generate.max-len-b=5
""".split()
OPTIONS = ("--documents", "12", "--test-documents", "4", "--max-update", str(UPDATES))
OPTIONS += tuple(text for change in CHANGES for text in ("--set", change))


@pytest.mark.slow
def test_prints_what_it_wrote(small) -> None:
    output, done = small
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    for system in results["systems"].values():
        for score in system["scores"]["raw"].values():
            assert f"{score['score']:.2f}" in done.stdout
            assert score["signature"] in done.stdout
        assert f"{system['validation_perplexity']:.2f}" in done.stdout
    assert results["full_budget"] is False and results["failed"] == []
    assert {"command", "commit", "versions", "date", "device", "seconds"} <= set(results)
    assert imread(output / "learning_curves.png").ndim == 3
    assert (output / "samples.txt").read_text(encoding="utf-8").strip() in done.stdout
    source = (output / "prepared" / "text" / "test.en").read_text(encoding="utf-8").splitlines()
    for system in ("gtransformer", "transformer"):
        text = (output / system / "test.txt").read_text(encoding="utf-8").splitlines()
        assert len(text) == len(source)
        assert [i for i, line in enumerate(text) if line == "<d>"] == [i for i, x in enumerate(source) if x == "<d>"]


@pytest.mark.slow
def test_run_again_keeps_what_is_done(small) -> None:
    output, first = small
    before = (output / "gtransformer" / "checkpoints" / "checkpoint_best.pt").stat().st_mtime_ns
    again = demo(output, *OPTIONS, timeout=600)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("done before, kept") == 10
    assert (output / "gtransformer" / "checkpoints" / "checkpoint_best.pt").stat().st_mtime_ns == before
    assert first.stdout.split("s-BLEU")[-1] == again.stdout.split("s-BLEU")[-1]
