"""Strategies through fairseq's commands: translations in their places, one for each sentence; what
is refused.
"""

from __future__ import annotations

import json
from argparse import Namespace

import pytest
import torch

from gtransformer.data.translations import split_sentences
from gtransformer.files import read_json
from gtransformer.plugin.checkpoints import load_trained
from gtransformer.search.strategies import SEQUENTIAL, Strategy
from tests.commands import run
from tests.core.search.test_sequential import window_by_window
from tests.saved_model import make_checkpoint
from tests.support import ROOT, command

score = command("score")

PREPARED = ROOT / "tests" / "prepared" / "len48"
TASK = ["--task=translation_doc", "--source-lang=en", "--target-lang=de", "--langs=en,de"]
SEARCH = ["--beam=3", "--max-len-a=1.2", "--max-len-b=2", "--unnormalized"]
HERE = ["--cpu", "--num-workers=0", "--max-tokens=200"]
COUNTS = [7, 6, 9]  # sentences of the test documents


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A model that was not trained, its weights drawn wide."""
    return make_checkpoint(PREPARED, tmp_path_factory.mktemp("strategies") / "model.pt")


@pytest.fixture
def generate(checkpoint, tmp_path):
    """generate(options): the sentences by document of PREFIX.jsonl, which fairseq-generate
    writes.
    """

    def call(*options: str) -> list[list[str]]:
        line = [PREPARED / "bin", *TASK, f"--path={checkpoint}", *SEARCH, *HERE, *options]
        run("generate", *line, f"--gen-output={tmp_path / 'test'}")
        lines = [
            json.loads(one)
            for one in (tmp_path / "test.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        return [one["hypotheses"][0]["sentences"] for one in lines]

    return call


@torch.no_grad()
def test_sequential_is_the_search_written_out(generate, checkpoint, tmp_path):
    """Behind one previous sentence, with the options that a model with as much context was trained
    with; scored.
    """
    found = generate("--instances=sliding", "--context-sentences=1", "--strategy=sequential")
    assert [len(one) for one in found] == COUNTS
    model, task = load_trained(
        checkpoint, data=str(PREPARED / "bin"), instances="greedy", instance_tokens=100_000
    )
    task.load_dataset("test")
    generator = task.build_generator(
        [model], Namespace(beam=3, max_len_a=1.2, max_len_b=2, unnormalized=True)
    )
    source, strategy = task.dataset("test")[1]["source"].tolist(), Strategy(SEQUENTIAL, context=1)
    _, tokens, _ = window_by_window(generator, source, strategy)
    assert found[1] == split_sentences(
        tokens, task.tgt_dict, {task.tgt_dict.index(f"[{lang}]") for lang in task.langs}
    )
    assert (
        score([str(PREPARED), "--hypotheses", str(tmp_path / "test.jsonl"), "--reference", "both"])
        == 0
    )
    counts = read_json(tmp_path / "test.scores.json")["counts"]
    assert counts["sentences"] == 22 and counts["misaligned_instances"] == 0
