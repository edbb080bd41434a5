"""A recipe from raw text to scores, as gtransformer run drives it, each stage a program of its
own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gtransformer.files import read_json
from tests.commands import environment
from tests.core.end_to_end.test_recipes import DOCUMENTS, SENTENCES, write_corpus
from tests.processes import run_group

pytestmark = pytest.mark.slow


def test_every_stage_leaves_its_results(tmp_path: Path):
    write_corpus(tmp_path / "tiny")
    output = tmp_path / "runs"
    line = [
        sys.executable,
        "-m",
        "gtransformer",
        "run",
        "cpu_tiny",
        tmp_path / "tiny",
        "--output",
        output,
    ]
    done = run_group([*line, "all"], env=environment())
    assert done.returncode == 0, done.stdout[-3000:]
    assert (output / "checkpoints" / "checkpoint_best.pt").is_file()
    assert "num_updates 10" in (output / "train.log").read_text()
    result = read_json(output / "test.scores.json")
    assert list(result["scores"]) == ["raw", "release"]
    for scores in result["scores"].values():
        assert (
            scores["s_bleu"]["segments"] == DOCUMENTS["test"] * SENTENCES
            and scores["s_bleu"]["signature"]
        )
    for stage in ("prepare", "train", "generate.test", "score.test"):
        record = read_json(output / f"{stage}.json")
        assert record["done"] and record["seconds"] > 0
        assert (output / f"{stage}.log").stat().st_size > 0
    assert "s-BLEU" in done.stdout and done.stdout.rstrip().endswith(f"results: {output}")
