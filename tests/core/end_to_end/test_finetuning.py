"""fairseq-train from a checkpoint of fairseq's own transformer: two rates, and resuming."""

from __future__ import annotations

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from tests.commands import SMALL, TRAINING, run

pytestmark = pytest.mark.slow

LR = 0.001
SHORT = [
    "--max-tokens=400",
    "--lr-scheduler=fixed",
    f"--lr={LR}",
    "--no-epoch-checkpoints",
    "--adam-eps=1e-12",
]
TWO_RATES = ["--doc-double-lr", "--lr-scale-pretrained=0.25"]


@pytest.fixture(scope="module")
def sentence_model(copy_corpus, tmp_path_factory):
    """A checkpoint of fairseq's own architecture and translation task, over the same dictionary."""
    options = [part for part in SMALL if "ctxlayers" not in part]
    options = [part for part in options if part not in ("gtransformer_mini", "1")]
    options.insert(options.index("--arch") + 1, "transformer")
    options += ["--encoder-attention-heads=4", "--decoder-attention-heads=4"]
    options += ["--max-update=2", "--required-batch-size-multiple=1"]
    task = [{"translation_doc": "translation"}.get(part, part) for part in TRAINING]
    task = task[: task.index("--langs")] + task[task.index("--langs") + 2 :]
    folder = tmp_path_factory.mktemp("sentence")
    run("train", copy_corpus / "bin", *task, *options, *SHORT, f"--save-dir={folder}")
    return folder / "checkpoint_last.pt"


def training(copy_corpus, save, *options):
    return ["train", copy_corpus / "bin", *TRAINING, *SMALL, *SHORT, f"--save-dir={save}", *options]


def test_fine_tuning_moves_two_groups_and_goes_on(copy_corpus, sentence_model, tmp_path):
    """Global attention starts as a copy, gates' bias at zero, so that how far the first step moved
    them is known.
    """
    options = [
        "--load-partial-global-from-local",
        *TWO_RATES,
        f"--finetune-from-model={sentence_model}",
    ]
    line = training(copy_corpus, tmp_path, *options)
    run(*line, "--max-update=1")
    before = torch.load(sentence_model)["model"]
    state = torch.load(tmp_path / "checkpoint_last.pt")
    compared = {True: 0, False: 0}
    for name, value in state["model"].items():
        old = before.get(name.replace("_local.", ".").replace("_global.", "."))
        if name.endswith("gate.0.bias"):
            old = torch.zeros_like(value)
        if (
            old is None or "_attn" not in name or "k_proj.bias" in name
        ):  # a key's bias has no gradient but rounding
            continue
        # The first step of Adam is the learning rate for every element that has a gradient.
        moved = (value - old).abs().max().item()
        assert moved == pytest.approx(LR if "_gate." in name else 0.25 * LR, rel=1e-3), name
        compared["_gate." in name] += 1
    assert compared[True] == 3 and compared[False] >= 9 * 7
    groups = state["last_optimizer_state"]["param_groups"]
    assert [group["lr"] for group in groups] == pytest.approx([0.25 * LR, LR])
    assert state["cfg"]["optimizer"]["_name"] == "adam_two_rates"

    again = run(
        *line, "--max-update=2"
    )  # the same command, interrupted: not from the sentence model once more
    assert "@ 1 updates" in again.split("Loaded checkpoint")[1]
    assert "initialised from a Transformer" not in again
    assert torch.load(tmp_path / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"] == 2

    (model,), _, task = load_model_ensemble_and_task(
        [str(tmp_path / "checkpoint_last.pt")], arg_overrides={"data": str(copy_corpus / "bin")}
    )
    assert model.encoder.layers[1].self_attn_global is not None and task.langs == ["en", "de"]
