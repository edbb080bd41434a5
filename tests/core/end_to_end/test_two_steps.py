"""Two steps of training through fairseq's commands: a sentence model, then context beside its sentences."""

from __future__ import annotations

import json

import pytest
import torch

from gtransformer.cli.score import main as score
from tests.commands import only_error, run
from tests.core.end_to_end.test_systems import GENERATION, PREPARED, SMALL, TASK

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
    assert "len48/bin train 26 instances by" in log and "len90/bin train 26 instances by" in log
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def model(sentence_model, tmp_path_factory):
    """Step 2, in one go."""
    return step_2(sentence_model, tmp_path_factory.mktemp("step2"), 2)[0]


def step_2(sentence_model, folder, epochs):
    """(checkpoint, log) of training up to so many epochs."""
    start = [f"--finetune-from-model={sentence_model}", "--load-partial", f"--save-dir={folder}"]
    log = run("train", PREPARED / "bin", *STEP_2, *start, "--max-epoch", epochs, "--eval-bleu")
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


def test_translated_sentence_by_sentence(model, tmp_path):
    """Every sentence once, in its place; the score is of all of them. Without context, too."""
    found = []
    for count in (2, 0):
        options = ["--instances", "current", "--context-sentences", count]
        output = tmp_path / str(count)
        run("generate", PREPARED / "bin", *TASK, *options, f"--path={model}", *GENERATION, f"--gen-output={output}")
        lines = [json.loads(line) for line in output.with_suffix(".jsonl").read_text().splitlines()]
        assert len(lines) == 22
        assert all(line["sentences"] == 1 == len(line["hypotheses"][0]["sentences"]) for line in lines)
        assert score([str(PREPARED), "--hypotheses", str(output.with_suffix(".jsonl"))]) == 0
        scores = json.loads(output.with_suffix(".scores.json").read_text())
        assert scores["counts"]["sentences"] == 22 and scores["counts"]["misaligned_instances"] == 0
        found.append([line["hypotheses"][0]["score"] for line in lines])
    assert found[0] != found[1]


def test_typed_lines_hold_their_context(model, tmp_path):
    """fairseq-interactive: the last sentence of a line is translated, what stands before it is its context."""
    lines = "<s> a b </s> <s> c </s>\n<s> c </s>\n"
    options = [*TASK, f"--path={model}", "--beam=1", "--max-len-a=0", "--max-len-b=3"]
    output = run("interactive", PREPARED / "bin", *options, input=lines)
    hypotheses = [line.split("\t")[2] for line in output.splitlines() if line.startswith("H-")]
    assert len(hypotheses) == 2 and all(line.count("</s>") <= 1 and len(line.split()) <= 5 for line in hypotheses)


def test_no_step_takes_up_the_other_s_optimizer(sentence_model, model, tmp_path):
    """The sentence model's own folder, and the second step's without its option."""
    places = ((sentence_model.parent, STEP_2, "without"), (model.parent, STEP_2[:-1], "with"))
    for folder, options, step in places:
        start = [f"--finetune-from-model={sentence_model}", "--load-partial", f"--save-dir={folder}"]
        line = only_error(run("train", PREPARED / "bin", *options, *start, "--max-epoch", "3", status=1))
        assert f"trained {step} --freeze-sentence-parameters" in line or "a checkpoint of doc_transformer_mini" in line
