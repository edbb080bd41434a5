"""Two steps of training through fairseq's commands: a sentence model, then context beside its sentences."""

from __future__ import annotations

import pytest
import torch

from tests.commands import run
from tests.core.end_to_end.test_systems import EVAL, PREPARED, SMALL, TASK

CURRENT = ["--instances", "current", "--context-sentences", "2"]
STEP_2 = [*TASK, *CURRENT, "--arch", "document_transformer_mini", *SMALL, "--freeze-sentence-parameters"]


@pytest.fixture(scope="module")
def sentence_model(tmp_path_factory):
    """Step 1: a Transformer on single sentences, of two corpora in turn."""
    folder = tmp_path_factory.mktemp("step1")
    single = ["--instances", "disjoint", "--context-sentences", "0"]
    log = run(
        "train", f"{PREPARED / 'bin'}:{PREPARED.parent / 'len90' / 'bin'}", *TASK, *single, "--arch",
        "doc_transformer_mini", *SMALL, "--max-epoch", "2", f"--save-dir={folder}",
    )  # fmt: skip
    assert "len48/bin train 26 instances" in log and "len90/bin train 26 instances" in log
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def model(sentence_model, tmp_path_factory):
    """Step 2, in one go."""
    return step_2(sentence_model, tmp_path_factory.mktemp("step2"), 2)[0]


def step_2(sentence_model, folder, epochs):
    """(checkpoint, log) of training up to so many epochs."""
    start = [f"--finetune-from-model={sentence_model}", "--load-partial", f"--save-dir={folder}"]
    log = run("train", PREPARED / "bin", *STEP_2, *start, "--max-epoch", epochs, "--eval-bleu", EVAL)
    return folder / "checkpoint_last.pt", log


def test_frozen_to_the_bit_and_resumed_exactly(sentence_model, model, tmp_path):
    step_2(sentence_model, tmp_path, 1)
    again, log = step_2(sentence_model, tmp_path, 2)
    assert '"valid_bleu"' in log and '"epoch": 2' in log and '"epoch": 1,' not in log
    before, whole, resumed = (torch.load(path, weights_only=True) for path in (sentence_model, model, again))
    assert whole["model"].keys() == resumed["model"].keys() > before["model"].keys()
    for name, value in whole["model"].items():
        assert torch.equal(value, resumed["model"][name]), name
        if name in before["model"]:
            assert torch.equal(value, before["model"][name]), name
        else:
            assert "context_encoder" in name or "context_attn" in name, name
    states = [state["last_optimizer_state"]["state"] for state in (whole, resumed)]
    assert [len(one) for one in states] == [len(whole["model"]) - len(before["model"])] * 2
    for number, state in states[0].items():
        assert all(torch.equal(state[key], states[1][number][key]) for key in ("exp_avg", "exp_avg_sq"))
