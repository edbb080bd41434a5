"""Recipes compared on a small corpus: two, the second fine-tuned from the first."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from gtransformer.lab.cli import demo_corpus
from tests.processes import run_group
from tests.support import ROOT

pytestmark = pytest.mark.slow
TINY = """
prepare.vocabulary-size=500 prepare.workers=1 train.arch=gtransformer_mini train.encoder-layers=2 train.decoder-layers=2
train.encoder-embed-dim=32 train.decoder-embed-dim=32 train.max-tokens=1200 train.max-update=3
train.save-interval-updates=1 train.validate-interval-updates=1 train.log-interval=1 train.num-workers=0 generate.beam=1
generate.max-len-a=0 generate.max-len-b=3
""".split()
TUNED = """\
description: fine-tuned on the Transformer over documents
based-on: cpu_small_finetune
pretrained-from: cpu_small_doc
"""


@pytest.fixture(scope="module")
def arguments(tmp_path_factory) -> list[str]:
    """The command line: three documents of the demonstration corpus, a few updates of a tiny model."""
    folder = tmp_path_factory.mktemp("compare")
    assert demo_corpus.main(["--output", str(folder / "demo"), "--documents", "3", "--test-documents", "2"]) == 0
    for path in (folder / "demo").glob("*_dev_*.txt"):  # two of its sixteen documents are enough
        path.write_text("<d>".join(path.read_text(encoding="utf-8").split("<d>")[:3]), encoding="utf-8")
    (folder / "tuned.yaml").write_text(TUNED)
    result = [str(folder / "demo"), str(folder / "out"), "--recipes", f"{folder / 'tuned.yaml'},cpu_small_doc"]
    result += ["--minutes", "5", "--jobs", "2"]  # one thread each, which a busy machine slows down less
    return result + [text for change in TINY for text in ("--set", change)]


@pytest.fixture(scope="module")
def finished(arguments: list[str]) -> tuple[dict, str]:
    """The results, and what was printed."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = run_group([sys.executable, "-m", "gtransformer.lab.cli.compare", *arguments], env=environment)
    assert done.returncode == 0, done.stdout[-3000:]
    return json.loads((Path(arguments[1]) / "comparison.json").read_text(encoding="utf-8")), done.stdout


def test_results(arguments, finished):
    result, output = finished
    assert list(result["recipes"]) == ["cpu_small_doc", "tuned"]
    assert {"command", "commit", "versions", "date", "machine", "changes"} <= set(result)
    assert result["corpus"] == {"name": "demo"}
    assert result["sizes"]["cpu_small"]["train"]["documents"] == 3
    for recipe in result["recipes"].values():
        assert recipe["updates"] == 3 and recipe["parameters"] > 1000 and 0 <= recipe["seconds"]["training"] < 300
        assert [update for update, _ in recipe["curve"]["valid"]] == [1, 2, 3]
        assert [update for update, _ in recipe["curve"]["words"]] == [1, 2, 3]
        assert recipe["word_perplexity"] > 1 and recipe["word_perplexity"] != recipe["validation_perplexity"]
        scores = recipe["scores"]["demo_test"]
        assert scores["counts"]["documents"] == 2 and scores["raw"]["d_bleu"]["signature"]
        assert f"{scores['raw']['d_bleu']['score']:.2f}" in output
    tuned = result["recipes"]["tuned"]
    assert tuned["minutes_with_pretraining"] == 10 and "on top of 5 of cpu_small_doc" in tuned["note"]
    assert tuned["scores"]["demo_test"]["aligned"], "group attention keeps to the sentences of the source"
    assert imread(Path(arguments[1]) / "learning_curves.png").ndim == 3
    runs = Path(arguments[1]) / "runs"
    model = runs / "cpu_small_doc" / "checkpoints" / "checkpoint_best.pt"
    assert f"loading pretrained model from {model}" in (runs / "tuned" / "train.log").read_text()
