"""A model of single sentences over a shared corpus is the one over a corpus that was prepared in single sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gtransformer.cli import contrastive, prepare
from gtransformer.cli.score import main as score
from gtransformer.lab.cli import demo_corpus
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import load_recipe
from tests.commands import run

pytestmark = pytest.mark.slow

TASK = "--task translation_doc --source-lang en --target-lang de --langs en,de --doc-mode full --cpu".split()
TINY = (
    "--arch gtransformer_mini --encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 24 "
    "--decoder-ffn-embed-dim 24 --encoder-layers 1 --decoder-layers 1 --encoder-attention-heads 2 "
    "--decoder-attention-heads 2 --share-all-embeddings --dropout 0.2 --doc-noise-mask 0.2 --optimizer adam --lr 0.01 "
    "--criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 400 --max-epoch 2 --seed 3 "
    "--num-workers 0 --no-epoch-checkpoints --log-format json"
).split()
RECIPE = load_recipe("sent_base").sections["task"]
# The former way and the one of the recipes: what the corpus is prepared with, and how its instances are loaded.
WAYS = {
    "stored": (["--max-sents", "1"], []),
    "shared": ([], to_arguments({key: RECIPE[key] for key in ("instances", "context-sentences")})),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """By way: PREPARED, and a run in WAY with checkpoint and translations; ``raw`` with contrastive items."""
    folder = tmp_path_factory.mktemp("single")
    raw, vocabulary = folder / "raw", []
    sizes = ["--documents", "4", "--dev-documents", "1", "--test-documents", "2", "--contrastive-items", "20"]
    assert demo_corpus.main([f"--output={raw}", *sizes]) == 0
    for way in ("shared", "stored"):
        preparing, loading = WAYS[way]
        prepared = folder / f"prepared-{way}"
        # More than 12 tokens are left out of training; elsewhere, sentences of 28 and more are instances of their own.
        limits = ["--bpe-merges=300", "--max-instance-tokens=30", "--max-sentence-tokens=12", "--workers=1"]
        assert prepare.main([str(raw), str(prepared), *(vocabulary or limits[:1]), *limits[1:], *preparing]) == 0
        vocabulary = [f"--vocabulary={prepared}"]
        run("train", prepared / "bin", *TASK, *loading, *TINY, f"--save-dir={folder / way}")
        run(
            "generate", prepared / "bin", *TASK, *loading, f"--path={folder / way / 'checkpoint_last.pt'}", "--beam=2",
            "--max-len-a=0", "--max-len-b=3", "--max-tokens=400", f"--gen-output={folder / way / 'test'}",
        )  # fmt: skip
    return folder


def test_the_same_corpus(folder):
    """Sentences and documents of every split, what is dropped, and the dictionary; more instances."""
    sizes = [json.loads((folder / f"prepared-{way}" / "manifest.json").read_text())["splits"] for way in WAYS]
    for split, stored in sizes[0].items():
        shared = sizes[1][split]
        assert stored["sentences"] == shared["sentences"] and stored["documents"] == shared["documents"]
        assert stored["instances"] > shared["instances"]
    for name in ("bin/dict.en.txt", "bpe.codes", "truecase.de", "text/train.en", "text/test.de"):
        one, other = ((folder / f"prepared-{way}" / name).read_bytes() for way in WAYS)
        assert one == other
    instance_indexes = [json.loads((folder / f"prepared-{w}/bin/train.en-de.instances.json").read_text()) for w in WAYS]
    assert instance_indexes[0]["dropped"] == instance_indexes[1]["dropped"] != []


def test_the_same_model(folder):
    """Two epochs with all dropouts: instances, their numbers, batches and their order are the same."""
    one, other = (torch.load(folder / way / "checkpoint_last.pt") for way in WAYS)
    assert one["optimizer_history"] == other["optimizer_history"]
    assert one["optimizer_history"][-1]["num_updates"] > 4
    assert one["model"].keys() == other["model"].keys()
    assert all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])


def test_the_same_translations_and_scores(folder):
    found = []
    for way in WAYS:
        lines = [json.loads(line) for line in (folder / way / "test.jsonl").read_text().splitlines()]
        assert score([str(folder / f"prepared-{way}"), f"--hypotheses={folder / way / 'test.jsonl'}"]) == 0
        scores = json.loads((folder / way / "test.scores.json").read_text())
        found.append((lines, scores["scores"], scores["counts"]))
    assert found[0][1:] == found[1][1:]
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert other.pop("current") == [other["first_sentence"], 1] and one == other


def test_the_same_contrastive_scores_item_by_item(folder):
    results = []
    for way in WAYS:
        output = folder / f"{way}.json"
        line = [str(folder / f"prepared-{way}"), f"--path={folder / way / 'checkpoint_last.pt'}", f"--output={output}"]
        assert contrastive.main([*line, f"--items={folder / 'raw' / 'contrastive.json'}", "--cpu"]) == 0
        results.append(json.loads(output.read_text()))
    one, other = results
    assert len(one["items"]) > 10 and one["items"] == other["items"] and one["total"] == other["total"]
    distances = [item["distance"] for item in one["items"]]
    assert one["context_out_of_view"] == other["context_out_of_view"] == sum(map(bool, distances)) > 5
