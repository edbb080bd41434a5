"""The arena at its smallest: sentences and a system of a user's own, as docs/new_system.md has it; a few updates, ended
in the first training and gone on with.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tarfile
from pathlib import Path

import pytest
from matplotlib.image import imread

from gtransformer.evaluation.score import score_text
from gtransformer.lab.cli.arena import main
from tests.processes import interrupt_when, run_group
from tests.support import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
TINY = """
prepare.vocabulary-size=500 prepare.workers=1 train.encoder-layers=1 train.decoder-layers=1 train.encoder-embed-dim=16
train.decoder-embed-dim=16 train.encoder-ffn-embed-dim=24 train.decoder-ffn-embed-dim=24 train.max-tokens=1200
train.warmup-updates=1 train.save-interval-updates=1 train.validate-interval-updates=1 train.log-interval=1
generate.beam=1 generate.max-len-a=0 generate.max-len-b=3
""".split()
ARCHITECTURE = (ROOT / "docs" / "new_system.md").read_text(encoding="utf-8")
SIZES = ["--documents", "4", "--dev-documents", "1", "--test-documents", "1", "--items", "4"]
BUDGET = ["--updates", "3", "--start-updates", "4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("arena")


@pytest.fixture(scope="module")
def command(folder: Path, tmp_path_factory) -> list[str]:
    """A recipe of a user's own stands in another folder than those of the package."""
    recipe = tmp_path_factory.mktemp("recipes") / "neighbours.yaml"
    recipe.write_text(re.findall(r"^```yaml\n(.*?)^```$", ARCHITECTURE, re.MULTILINE | re.DOTALL)[1], encoding="utf-8")
    arguments = ["demo", str(folder), "--systems", str(recipe), "--seeds", "1", "--jobs", "2"]
    arguments += [*SIZES, *BUDGET]
    changes = [text for change in TINY for text in ("--set", change)]
    return [sys.executable, "-m", "gtransformer.lab.cli.arena", *arguments, *changes]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def interrupted(folder: Path, command: list[str], environment: dict[str, str]) -> str:
    """Ended while the sentence model is being trained; what it printed."""
    checkpoint = folder / "runs" / "start" / "checkpoints" / "checkpoint_last.pt"
    return interrupt_when(checkpoint.is_file, command, env=environment)


@pytest.fixture(scope="module")
def finished(folder: Path, command: list[str], environment: dict[str, str], interrupted: str) -> tuple[dict, str]:
    """The results, and what the second run printed."""
    done = run_group(command, env=environment)
    assert done.returncode == 0, done.stdout[-3000:]
    return json.loads((folder / "arena.json").read_text(encoding="utf-8")), done.stdout


def test_an_interrupted_arena_goes_on(folder, interrupted, finished):
    assert interrupted.endswith("interrupted\n")
    _, output = finished
    assert "prepare-prepared: done before, kept" in output and "corpus: done before, kept" in output
    for name, updates in (("start", 4), ("sentences-1", 3), ("neighbours-1", 3)):
        log = (folder / "runs" / name / "train.log").read_text()
        assert f"num_updates: {updates} >= max_update: {updates}" in log
        if name == "start":
            assert "Loaded checkpoint" in log
        else:
            assert f"loading pretrained model from {folder}/runs/start/checkpoints/checkpoint_best.pt" in log


def test_results(folder, finished):
    result, output = finished
    assert {"command", "commit", "versions", "date", "machine", "changes"} <= set(result)
    assert (result["seeds"], result["updates"], result["start"]) == ([1], 3, {"recipe": "start", "updates": 4})
    assert list(result["systems"]) == ["sentences", "neighbours"]
    assert {len(found) for key, found in result["files"].items() if key != "test"} == {64} and result["commits"]
    rows = ["1", "2", "3", "4-6", "7-12", "13-24", "25+"]
    for name, system in result["systems"].items():
        assert system["scores"]["s_bleu"]["signature"] and 0 <= system["scores"]["d_bleu"]["mean"] <= 100
        assert 0 <= system["aligned"]["chrf"]["mean"] <= 100 and system["aligned"]["s_bleu"] is not None
        gains = {most: one["cxmi"]["mean"] for most, one in system["cxmi"]["contexts"].items()}
        assert list(gains) == ["0", "1", "2", "3", "all"] and gains["0"] == 0.0
        assert (set(gains.values()) == {0.0}) == (name == "sentences")
        translated = system["generative"]["by_phenomenon"]
        items = json.loads((folder / "context_items.json").read_text(encoding="utf-8"))["items"]
        assert translated["mean"]["items"] == len(items) > 20 and 0 <= translated["mean"]["accuracy"] <= 100
        assert "chance" not in translated["pronoun"]
        assert 0 < system["speed"]["sentences_per_second"]["mean"] < system["speed"]["decoded_per_second"]["mean"]
        assert system["parameters"] > 1000 and 0 <= system["seconds"][0]["training"] < 300  # whole seconds, of the log
        assert system["updates"] == [3] and system["peak_bytes"]["training_gpu"] is None
        assert all(2**26 < system["peak_bytes"][what]["mean"] < 2**33 for what in ("training", "translation"))
        epoch = system["epoch"]
        assert system["target_tokens_per_update"] == pytest.approx(epoch["target_tokens"] / epoch["updates"], abs=0.05)
        reach = system["accuracy"]["by_distance_target"]
        assert list(reach) == list(system["accuracy"]["by_distance_source"]) == rows
        assert list(system["accuracy"]["by_distance_both"]) == rows
        if name == "sentences":  # nothing is in view: exactly chance, and no error
            for row in rows:
                found = reach[row]["mean"]
                assert found["accuracy"] == pytest.approx(found["chance"])
                assert found["standard_error"] == pytest.approx(0)
        else:
            assert all("difference" in reach[row]["mean"] for row in rows)
    assert (folder / "arena.txt").read_text(encoding="utf-8") in output
    with tarfile.open(folder / "arena.tar.xz") as packed:
        packed.extractall(folder / "kept", filter="data")
    for name in ("sentences", "neighbours"):
        again = score_text(folder / "kept" / "reference.txt", folder / "kept" / f"{name}-1.txt", metrics=["bleu"])
        for key, score in again.scores["raw"].values.items():
            assert result["systems"][name]["aligned"][key]["mean"] == pytest.approx(score.score)
    assert "difference" not in result["systems"]["sentences"]
    for key, one in result["systems"]["neighbours"]["difference"].items():
        scores = [result["systems"][name]["aligned"][key]["mean"] for name in ("neighbours", "sentences")]
        assert one["mean"] == pytest.approx(scores[0] - scores[1]) and one["interval"] is None
        assert one["documents"]["difference"] == pytest.approx(one["mean"])
    assert imread(folder / "arena.png").ndim == 3


def test_run_again_keeps_everything(finished, command, capsys):
    assert main(command[3:]) == 0
    assert capsys.readouterr().out.count("done before, kept") == 1 + 2 + 1 + 1 + 2 * (7 + 1)
