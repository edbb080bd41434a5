"""Recipes as gtransformer run drives them, on a few short documents with a tiny model.

One recipe of each kind goes from text to scores; all are parsed, and models of each kind built, in
tests/core/run/test_recipe.py. The stages run in this process;
test_run.py beside it has them in processes of their own. Whatever a recipe takes from another
(prepared corpus, dictionary, checkpoint) is made first, by that recipe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gtransformer.cli.run import main
from gtransformer.files import read_json
from gtransformer.lab.demo.corpus import SIDES, write_splits
from gtransformer.run import stage as stages
from gtransformer.run.recipe import Options, load_recipe
from gtransformer.run.run import keep_better
from tests.commands import run_here
from tests.core.models import fairseq_models

pytestmark = pytest.mark.slow

DOCUMENTS = {"train": 16, "dev": 2, "test": 2}
SENTENCES = 5  # of the beginning of each document of the demonstration corpus
UPDATES = 2
# The model from scratch; fine-tuned from another recipe's model at two rates; concatenation,
# translated on other instances; windows; context beside the sentence, the second of two steps.
# mBART and BERT: test_pretrained_corpora.py.
KINDS = ["base", "doc_base_finetune", "concatenation/two", "window/base", "document/base"]
# What makes a recipe tiny; everything else stays as it is. 16 dimensions, 3 + 3 layers, 2 heads.
SMALLER: dict[str, Options] = {
    "prepare": {"workers": 1},
    "train": {
        **{key.replace("_", "-"): value for key, value in fairseq_models.SIZES.items()},
        "max-tokens": 300,
        "update-freq": 1,
        "max-update": UPDATES,
        "num-workers": 0,
        "tensorboard-logdir": "",
    },
    "generate": {"beam": 2, "max-len-a": 0, "max-len-b": 3, "max-tokens": 300, "num-workers": 0},
}


class Workshop:
    """Runs stages of recipes, each once, in a directory where runs/ belongs to this test alone."""

    def __init__(self, root: Path):
        self.root, self.corpus = root, root / "tiny"
        self.done: set[tuple[str, str]] = set()
        write_corpus(self.corpus)

    def directory(self, name: str) -> Path:
        """Where a recipe's results are."""
        return self.root / "runs" / name / self.corpus.name

    def run(self, name: str, stage: str) -> None:
        """A stage, after those that it needs, with nothing but the recipe's name and what makes it
        tiny.
        """
        if (name, stage) in self.done:
            return
        recipe = load_recipe(name)
        if stage == "prepare" and recipe.prepared_from:
            return self.run(load_recipe(recipe.prepared_from).name, "prepare")
        if stage == "train" and recipe.pretrained_from:
            self.run(load_recipe(recipe.pretrained_from).name, "train")
        if stage != "prepare":
            self.run(name, {"train": "prepare", "generate": "train", "score": "generate"}[stage])
        line = [name, str(self.corpus), stage, "--set", "devices=1"]
        for section, options in SMALLER.items():
            for key, value in options.items():
                if section != "prepare" or not recipe.prepared_from:
                    line += ["--set", f"{section}.{key}={value}"]
        if recipe.averaged and "save-interval-updates" in recipe.options("train"):
            line += [
                "--set",
                f"train.save-interval-updates={UPDATES}",
            ]  # else there is nothing to average
        logs = self.directory(name).glob(f"{stage}*.log")
        assert main(line) == 0, "\n".join(log.read_text()[-3000:] for log in logs)
        self.done.add((name, stage))


def write_corpus(folder: Path) -> None:
    """The first sentences of documents of the demonstration corpus, in the raw corpus format."""
    folder.mkdir(parents=True)
    for split, documents in write_splits(DOCUMENTS, seed=1).items():
        for side in SIDES:
            lines = []
            for document in documents:
                lines += ["<d>", *(getattr(line, side) for line in document.lines[:SENTENCES])]
            (folder / f"concatenated_en2de_{split}_{side}.txt").write_text(
                "\n".join(lines) + "\n", encoding="utf-8"
            )


def run_logged(command: list[str], log: Path) -> int:
    """Run a stage's program in this process."""
    module, *words = command[2:]
    if module == "gtransformer":
        module = f"gtransformer.cli.{words.pop(0)}"
    status, output = run_here(module, *words)
    with open(log, "a", encoding="utf-8") as stream:
        stream.write(output)
    return status


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> Iterator[Workshop]:
    """One for all recipes, so that what several need is made once."""
    root = tmp_path_factory.mktemp("recipes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GTRANSFORMER_RUNS", str(root / "runs"))
        patch.setattr(stages, "run_logged", run_logged)
        yield Workshop(root)


@pytest.mark.parametrize("name", KINDS)
def test_recipe_from_text_to_scores(workshop: Workshop, name: str) -> None:
    recipe = load_recipe(name)
    workshop.run(name, "score")
    directory = workshop.directory(name)

    checkpoint = torch.load(directory / "checkpoints" / "checkpoint_best.pt")
    assert checkpoint["optimizer_history"][-1]["num_updates"] == UPDATES
    assert all(value.isfinite().all() for value in checkpoint["model"].values())
    sentences = DOCUMENTS["test"] * SENTENCES
    lines = [
        json.loads(line)
        for line in (directory / "test.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert sum(line["sentences"] for line in lines) == sentences
    if recipe.options("task").get("doc-mode") != "full":
        assert all(len(line["hypotheses"][0]["sentences"]) == line["sentences"] for line in lines)
    scores = json.loads((directory / "test.scores.json").read_text(encoding="utf-8"))["scores"]
    assert list(scores) == ["raw", "release"]
    for one in scores.values():
        assert (
            one["s_bleu"]["segments"] == sentences
            and one["d_bleu"]["segments"] == DOCUMENTS["test"]
        )


@pytest.mark.parametrize(("name", "most"), [("doc_base_finetune", 1e-4), ("document/base", 0.0)])
def test_a_training_starts_from_another_recipes_model(
    workshop: Workshop, name: str, most: float
) -> None:
    """Two updates of a warm-up move nothing far, and frozen parameters not at all."""
    workshop.run(name, "train")
    start, trained = (
        torch.load(workshop.directory(one) / "checkpoints" / "checkpoint_best.pt")["model"]
        for one in (load_recipe(load_recipe(name).pretrained_from).name, name)
    )
    shared = {key for key in start if key in trained and start[key].dim() == 2}
    assert len(shared) > 20 and len(trained) > len(start) - 5
    assert all((start[key] - trained[key]).abs().max() <= most for key in shared)


def test_the_start_is_measured_beside_the_trained_model(workshop: Workshop) -> None:
    """One update at a learning rate of zero saves it; the sentence model's parameters are in it to
    the bit.
    """
    workshop.run("from_sentence_model", "score")
    before = workshop.directory("from_sentence_model") / "before"
    start, sentences = (
        torch.load(folder / "checkpoints" / "checkpoint_best.pt")["model"]
        for folder in (before, workshop.directory("sent_base"))
    )
    kept = [
        name for name in start if name.endswith(("fc1.weight", "embed_tokens.weight", "fc2.bias"))
    ]
    assert len(kept) > 6 and all(torch.equal(start[name], sentences[name]) for name in kept)
    result = read_json(before.parent / "test.comparison.json")
    assert (result["baseline"], list(result["systems"])) == ("before", ["before", "after"])
    assert {"s_bleu", "d_bleu"} <= result["significance"]["raw"].keys()


def checkpoint(path: Path, loss: float) -> Path:
    path.parent.mkdir(exist_ok=True)
    torch.save({"model": {"weight": torch.tensor(loss)}, "extra_state": {"val_loss": loss}}, path)
    return path


@pytest.mark.parametrize(("loss", "kept"), [(2.0, True), (4.0, False)])
def test_the_better_of_start_and_trained_model_is_the_recipes(loss, kept, tmp_path):
    start = checkpoint(tmp_path / "before" / "checkpoint_best.pt", loss)
    best = checkpoint(tmp_path / "checkpoints" / "checkpoint_best.pt", 3.0)
    said = keep_better(start, best, load_recipe("few_documents"))
    assert float(torch.load(best)["model"]["weight"]) == min(loss, 3.0)
    assert f"{loss:.3f} before training, 3.000 after" in said and ("kept" in said) == kept
