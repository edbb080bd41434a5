"""A recipe from raw text to scores, as gtransformer run drives it, with the smallest recipe on a made-up corpus."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run_group

ROOT = Path(__file__).resolve().parents[3]
ANIMALS = {"dog": "Hund", "cat": "Katze", "horse": "Pferd", "cow": "Kuh", "bird": "Vogel", "fish": "Fisch"}
VERBS = {"sees": "sieht", "hears": "hört", "likes": "mag", "finds": "findet"}
SENTENCES = {"train": 240, "dev": 24, "test": 30}
PER_DOCUMENT = 6

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Documents of six sentences such as "the dog sees a cat ." """
    directory = tmp_path_factory.mktemp("raw") / "animals"
    directory.mkdir()
    chooser = random.Random(1)
    for split, count in SENTENCES.items():
        lines: dict[str, list[str]] = {"en": [], "de": []}
        for number in range(count):
            if number % PER_DOCUMENT == 0:
                lines["en"].append("<d>")
                lines["de"].append("<d>")
            (a, x), (b, y) = chooser.sample(sorted(ANIMALS.items()), 2)
            verb, wort = chooser.choice(sorted(VERBS.items()))
            lines["en"].append(f"The {a} {verb} {b}s.")
            lines["de"].append(f"{x} {wort} {y}.")
        for lang, text in lines.items():
            (directory / f"concatenated_en2de_{split}_{lang}.txt").write_text("\n".join(text) + "\n")
    return directory


def run(*arguments: object) -> subprocess.CompletedProcess:
    return run_group(
        [sys.executable, "-m", "gtransformer.cli.run", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory) -> tuple[Path, str]:
    """(directory, console output) of all four stages."""
    directory = tmp_path_factory.mktemp("runs") / "animals"
    result = run("cpu_tiny", corpus, "all", "--output", directory)
    assert result.returncode == 0, result.stdout[-3000:]
    return directory, result.stdout


def test_every_stage_leaves_its_results(finished):
    directory, console = finished
    manifest = json.loads((directory / "prepared" / "manifest.json").read_text())
    assert manifest["splits"]["test"]["sentences"] == SENTENCES["test"]
    assert (directory / "checkpoints" / "checkpoint_best.pt").is_file()
    assert "num_updates 10" in (directory / "train.log").read_text()
    result = json.loads((directory / "test.scores.json").read_text())
    assert list(result["scores"]) == ["raw", "release"]
    for scores in result["scores"].values():
        assert scores["s_bleu"]["segments"] == SENTENCES["test"] and scores["s_bleu"]["signature"]
    for stage in ("prepare", "train", "generate.test", "score.test"):
        record = json.loads((directory / f"{stage}.json").read_text())
        assert record["done"] and {"commit", "seconds", "device", "versions"} < set(record)
        assert (directory / f"{stage}.log").stat().st_size > 0
    assert "s-BLEU" in console and console.rstrip().endswith(f"results: {directory}")


def test_finished_training_is_not_repeated_and_a_longer_one_goes_on(corpus: Path, finished):
    directory, _ = finished
    again = run("cpu_tiny", corpus, "train", "--output", directory)
    assert again.returncode == 0 and "done before" in again.stdout and "fairseq_cli" not in again.stdout
    longer = ["cpu_tiny", corpus, "train", "--output", directory, "--set", "train.max-update=12"]
    refused = run(*longer)
    assert refused.returncode == 1 and "--again" in refused.stdout
    longer = run(*longer, "--again")
    assert longer.returncode == 0, longer.stdout[-3000:]
    assert "@ 10 updates" in longer.stdout.split("Loaded checkpoint")[1]
    assert "Stopping training due to num_updates: 12" in longer.stdout
