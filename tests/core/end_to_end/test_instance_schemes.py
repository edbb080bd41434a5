"""A corpus prepared once, trained on, translated and scored in other instances than it is stored in."""

import json
import re

import pytest

from gtransformer.cli.score import main as score
from tests.commands import run
from tests.core.end_to_end.test_systems import GENERATION, PREPARED, SMALL, TASK

SLIDING = ["--instances", "sliding", "--context-sentences", "2", "--context-loss", "off"]
MODEL = "--arch gtransformer_mini --encoder-ctxlayers 1 --decoder-ctxlayers 1 --cross-ctxlayers 1".split()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A model trained for two epochs, with workers; its log."""
    folder = tmp_path_factory.mktemp("schemes")
    options = ["--batch-order=document", "--doc-noise-mask=0.2", "--max-epoch=2", f"--save-dir={folder}"]
    log = run("train", PREPARED / "bin", *TASK, *SLIDING, *MODEL, *SMALL, *options)
    return folder / "checkpoint_last.pt", log


def test_training(checkpoint):
    """26 training sentences are 26 instances; what counts in an epoch is what these sentences hold."""
    _, log = checkpoint
    assert "train 17 instances" in log and "train 26 instances by --instances sliding" in log
    assert len(re.findall(r'"valid_loss": "[\d.]+"', log)) == 2


@pytest.mark.parametrize(
    ("options", "instances", "by_instance"),
    [(SLIDING, 22, False), (["--instances", "disjoint", "--context-sentences", "2"], 8, True)],
)
def test_translations_are_put_back(checkpoint, tmp_path, options, instances, by_instance):
    model, _ = checkpoint
    run("generate", PREPARED / "bin", *TASK, *options, f"--path={model}", *GENERATION, f"--gen-output={tmp_path}/test")
    assert len((tmp_path / "test.jsonl").read_text().splitlines()) == instances
    assert score([str(PREPARED), "--hypotheses", str(tmp_path / "test.jsonl"), "--reference", "both"]) == 0
    found = json.loads((tmp_path / "test.scores.json").read_text())
    assert found["counts"]["sentences"] == 22 and found["counts"]["instances"] == instances
    assert found["counts"]["misaligned_instances"] == 0
    for values in found["scores"].values():
        assert values["s_bleu"]["segments"] == 22 and values["d_bleu"]["segments"] == 3
        assert ("d_bleu_instance" in values) == by_instance
