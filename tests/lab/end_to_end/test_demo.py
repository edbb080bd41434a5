"""The demonstration on a smaller budget: its claims hold, and run again it keeps what is done.

Models of 2 + 2 layers, batches of about 1,000 target tokens, 225 updates at a higher learning rate: a tenth of the work
of gtransformer demo. The G-Transformer has then learnt to translate (validation perplexity 1.2), though not yet to look
for its context, which comes last; the plain Transformer over the document has not left its plateau.
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
    """The demonstration on the smaller budget: its directory and what it printed."""
    output = tmp_path_factory.mktemp("demo") / "out"
    done = demo(output, *OPTIONS)
    assert done.returncode == 0, done.stdout + done.stderr
    return output, done


UPDATES = 225
CHANGES = "encoder-layers=2 decoder-layers=2 max-tokens=1000 lr=3e-3 warmup-updates=60 total-num-update=400".split()
OPTIONS = ("--documents", "300", "--test-documents", "4", "--max-update", str(UPDATES))
OPTIONS += tuple(text for change in CHANGES for text in ("--set", f"train.{change}"))


@pytest.mark.slow
def test_one_system_arrives_and_the_other_does_not(small) -> None:
    output, _ = small
    systems = json.loads((output / "results.json").read_text(encoding="utf-8"))["systems"]
    ours, other = systems["gtransformer"], systems["transformer"]
    assert ours["updates"] == other["updates"] == UPDATES
    assert ours["validation_perplexity"] < 1.5
    assert other["validation_perplexity"] > 2.8
    assert ours["scores"]["raw"]["s_bleu"]["score"] > 50
    assert ours["scores"]["raw"]["d_bleu"]["score"] > 50
    assert other["scores"]["raw"]["d_bleu"]["score"] < 30
    assert ours["counts"]["misaligned_instances"] == 0
    assert ours["contrastive"]["total"]["items"] == other["contrastive"]["total"]["items"] > 100
    first, last = ours["curve"]["valid"][0][1], ours["curve"]["valid"][-1][1]
    assert last < first / 10


@pytest.mark.slow
def test_contrastive_accuracy_where_no_context_is_needed(small, tmp_path) -> None:
    """Every sentence's translation against another sentence's, without a word in common: guessing would solve half.

    A model that has learnt to translate, scored right, solves nearly all.
    """
    output, _ = small
    items = json.loads((output / "corpus" / "contrastive.json").read_text(encoding="utf-8"))["items"]
    texts = [item["correct"] for item in items]
    for number, item in enumerate(items):
        others = texts[number + 1 :] + texts[:number]
        item["wrong"] = [next(text for text in others if not set(text.split()) & set(item["correct"].split()))]
    easy, result = tmp_path / "easy.json", tmp_path / "result.json"
    easy.write_text(json.dumps({"split": "test", "items": items}), encoding="utf-8")
    command = [sys.executable, "-m", "gtransformer.cli.contrastive", str(output / "prepared"), "--cpu"]
    checkpoint = output / "gtransformer" / "checkpoints" / "checkpoint_best.pt"
    command += ["--path", str(checkpoint), "--items", str(easy), "--output", str(result)]
    done = run_group(command, 600, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(result.read_text(encoding="utf-8"))["total"]["accuracy"] > 95


@pytest.mark.slow
def test_prints_what_it_wrote(small) -> None:
    output, done = small
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    for system in results["systems"].values():
        for score in system["scores"]["raw"].values():
            assert f"{score['score']:.2f}" in done.stdout
            assert score["signature"] in done.stdout
        assert f"{system['validation_perplexity']:.2f}" in done.stdout
    assert "may still do so with more updates" in done.stdout
    assert "updates, perplexity" in done.stderr, "progress while training"
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
