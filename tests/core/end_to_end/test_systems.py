"""Systems beside the G-Transformer: trained and translated with through fairseq's commands; windows also resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.commands import run
from tests.core.end_to_end.conftest import made_once
from tests.support import ROOT

PREPARED = ROOT / "tests" / "prepared" / "len48"
TASK = ["--task", "translation_doc", "--source-lang", "en", "--target-lang", "de", "--langs", "en,de", "--cpu"]
SMALL = (
    "--encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 24 --decoder-ffn-embed-dim 24 "
    "--encoder-layers 1 --decoder-layers 1 --encoder-attention-heads 2 --decoder-attention-heads 2 --dropout 0.1 "
    "--share-all-embeddings --optimizer adam --lr 0.01 --max-tokens 100 --log-format json --log-interval 1 "
    "--no-epoch-checkpoints --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --num-workers 1"
).split()
SYSTEMS = {
    "lst_transformer_mini": ["--instances", "parts", "--instance-tokens", "40"],
    "flat_transformer_mini": ["--current-layers", "0", "--instances", "current", "--context-sentences", "2"],
    "window_transformer_mini": ["--window", "3", "--instances", "parts", "--instance-tokens", "40"],
}
EVAL = '--eval-bleu-args={"beam": 1, "max_len_a": 0, "max_len_b": 3}'  # untrained models write to the limit
GENERATION = ["--beam=2", "--max-len-a=0", "--max-len-b=3", "--batch-size=4"]


def instances(options: list[str]) -> list[str]:
    """The options among a system's that say which sentences stand together: generation takes them, too."""
    return options[options.index("--instances") :]


@pytest.fixture(scope="session")
def sentence_model(tmp_path_factory):
    """A Transformer on single sentences."""
    single = ["--instances", "disjoint", "--context-sentences", "0"]

    def make(folder: Path) -> None:
        arguments = [*TASK, *single, "--arch", "doc_transformer_mini", *SMALL, "--max-epoch=1", f"--save-dir={folder}"]
        run("train", PREPARED / "bin", *arguments)

    return made_once(tmp_path_factory, "sentence_model", make) / "checkpoint_last.pt"


@pytest.mark.parametrize("system", SYSTEMS)
def test_trained_and_translated_with(sentence_model, tmp_path, system):
    """From a sentence model; a translation of as many sentences as the source, one line an instance."""
    options, save = SYSTEMS[system], tmp_path / "model"
    arguments = [*TASK, *options, "--arch", system, *SMALL, f"--save-dir={save}"]
    start = [f"--finetune-from-model={sentence_model}", "--load-partial"]
    log = run("train", PREPARED / "bin", *arguments, *start, "--max-epoch", "1", "--eval-bleu", EVAL)
    assert '"valid_bleu"' in log
    output = tmp_path / "test"
    run(
        "generate", PREPARED / "bin", *TASK, *instances(options), f"--path={save / 'checkpoint_last.pt'}", *GENERATION,
        f"--gen-output={output}",
    )  # fmt: skip
    lines = [json.loads(line) for line in output.with_suffix(".jsonl").read_text().splitlines()]
    assert len(lines) > 3
    if system.startswith("window"):
        log = run("train", PREPARED / "bin", *arguments, *start, "--max-epoch", "2")
        assert '"valid_loss"' in log and '"epoch": 2' in log and '"epoch": 1,' not in log
        cfg = torch.load(save / "checkpoint_last.pt", weights_only=True)["cfg"]["model"]
        assert 0.5 < cfg["length_ratio"] < 2.0 and cfg["window"] == 3
        assert cfg["decode_alignment"] == "sentence"
        changed = '--model-overrides={"decode_alignment": "linear"}'
        run(
            "generate", PREPARED / "bin", *TASK, *instances(options), f"--path={save / 'checkpoint_last.pt'}",
            *GENERATION, changed,
        )  # fmt: skip
