"""Systems beside the G-Transformer, through fairseq's commands: trained from a sentence model,
translated with.
"""

from __future__ import annotations

import pytest
import torch

from tests.commands import only_error, run
from tests.support import ROOT, read_jsonl

PREPARED = ROOT / "tests" / "prepared" / "len48"
TASK = "--task translation_doc --source-lang en --target-lang de --langs en,de --cpu".split()
SMALL = (
    "--encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 24 "
    "--decoder-ffn-embed-dim 24 "
    "--encoder-layers 1 --decoder-layers 1 --encoder-attention-heads 2 --decoder-attention-heads 2 "
    "--dropout 0.1 "
    "--share-all-embeddings --optimizer adam --lr 0.01 --max-tokens 100 --log-format json "
    "--log-interval 1 "
    "--no-epoch-checkpoints --criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 "
    "--num-workers 1"
).split()
PARTS = ["--instances", "parts", "--instance-tokens", "40"]
BATCHES = ["--instances=sliding", "--context-sentences=2", "--batch-order=document"]
# Architecture -> its own options; the last three or four say which sentences stand together, also
# in generation.
SYSTEMS = {
    "lst_transformer_mini": PARTS,
    "flat_transformer_mini": "--current-layers=0 --instances current --context-sentences 2".split(),
    "window_transformer_mini": ["--window=3", *PARTS],
    "docflat_mini": ["--context-gate=discrete", *BATCHES],
    "mbe_mini": BATCHES,
    "neighbours": ["--user-dir=docs/example_system/neighbours", *PARTS],
}
# untrained models write to the limit
EVAL = '--eval-bleu-args={"beam": 1, "max_len_a": 0, "max_len_b": 3}'
GENERATION = ["--beam=2", "--max-len-a=0", "--max-len-b=3", "--batch-size=4"]


@pytest.fixture(scope="module")
def sentence_model(tmp_path_factory):
    """A Transformer on single sentences."""
    folder, single = (
        tmp_path_factory.mktemp("sentences"),
        ["--instances", "disjoint", "--context-sentences", "0"],
    )
    line = [
        *TASK,
        *single,
        "--arch",
        "doc_transformer_mini",
        *SMALL,
        "--max-epoch=1",
        f"--save-dir={folder}",
    ]
    run("train", PREPARED / "bin", *line)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def first_pass(sentence_model):
    """Its translations."""
    prefix = sentence_model.parent / "test"
    single = ["--instances", "disjoint", "--context-sentences", "0", f"--gen-output={prefix}"]
    run("generate", PREPARED / "bin", *TASK, *single, f"--path={sentence_model}", *GENERATION)
    return f"{prefix}.jsonl"


@pytest.mark.parametrize("system", SYSTEMS)
def test_trained_and_translated_with(sentence_model, first_pass, tmp_path, system, monkeypatch):
    """Validation translates; generation writes each of the 22 sentences once, by two passes what
    reads targets.
    """
    monkeypatch.chdir(ROOT)  # for docs/example_system
    own, last = SYSTEMS[system], tmp_path / "checkpoint_last.pt"
    by_batch, reads_targets = own[-3:] == BATCHES, system == "docflat_mini"
    line = [
        *TASK,
        *own,
        "--arch",
        system,
        *SMALL,
        f"--save-dir={tmp_path}",
        *["--context-loss=off"] * by_batch,
    ]
    line += [f"--finetune-from-model={sentence_model}", "--load-partial", "--max-tokens=300"]
    bleu = [] if reads_targets else ["--eval-bleu", EVAL]
    log = run("train", PREPARED / "bin", *line, *bleu, "--max-epoch=1")
    assert ('"valid_bleu"' in log) != reads_targets
    together = [
        word
        for word in own
        if word not in ("--current-layers=0", "--window=3", "--context-gate=discrete")
    ]
    work = ["generate", PREPARED / "bin", *TASK, *together, f"--path={last}", *GENERATION]
    passes = [f"--first-pass={first_pass}", "--batch-sentences=4"] if by_batch else []
    log = run(*work, *passes, f"--gen-output={tmp_path / 'test'}")
    lines = read_jsonl(tmp_path / "test.jsonl")
    assert sum((one.get("current") or [0, one["sentences"]])[1] for one in lines) == 22
    if by_batch:
        assert all(one["sentences"] == len(one["hypotheses"][0]["sentences"]) == 1 for one in lines)
    if reads_targets:
        assert "--first-pass PREFIX.jsonl" in only_error(run(*work, status=1))
    if system == "window_transformer_mini":  # resumed, and its alignment chosen anew
        log = run("train", PREPARED / "bin", *line, "--max-epoch=2")
        assert '"epoch": 2' in log and '"epoch": 1,' not in log
        cfg = torch.load(last)["cfg"]["model"]
        assert cfg["window"] == 3 and cfg["decode_alignment"] == "sentence"
        linear = '{"decode_alignment": "linear", "length_ratio": 1.1}'
        run(*work, f"--model-overrides={linear}")
