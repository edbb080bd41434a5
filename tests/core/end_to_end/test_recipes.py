"""Recipes as gtransformer run drives them, from text to scores, on a few short documents with a
tiny model.

All recipes are parsed, and models of each kind built, in tests/core/run/test_recipe.py. Whatever a
recipe takes from another (prepared corpus, dictionary, checkpoint) is made first, by that recipe.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary

from gtransformer.files import read_json
from gtransformer.lab.demo.corpus import SIDES, write_splits
from gtransformer.plugin.checkpoints import keep_better
from gtransformer.preprocess.corpus import raw_file
from gtransformer.preprocess.tokenisers import SentencePieces, learn_sentencepiece
from gtransformer.run.recipe import load_recipe
from tests.bert import save_bert, skip_without_transformers
from tests.commands import run_stages_here
from tests.core.models import fairseq_models
from tests.raw_corpus import write_documents
from tests.support import command, read_jsonl, write_lines

export = command("export")
main = command("run")
translate = command("translate")


pytestmark = pytest.mark.slow

DOCUMENTS = {"train": 16, "dev": 2, "test": 2}
SENTENCES = 5  # of the beginning of each document of the demonstration corpus
UPDATES = 2
PROGRAMS = "window/base/tiny/train"  # the stage that is a program; others run in this process
# Fine-tuned from another recipe's model at two rates; concatenation, translated on other instances;
# windows; context beside the sentence, the second of two steps.
KINDS = ["doc_base_finetune", "concatenation/two", "window/base", "document/base"]
# What makes a recipe tiny; everything else stays as it is. 16 dimensions, 3 + 3 layers, 2 heads.
SMALLER: dict[str, dict[str, Any]] = {
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
NEEDED = {"train": "prepare", "generate": "train", "score": "generate"}


class Workshop:
    """Runs stages of recipes, each once, in a directory where runs/ belongs to this test alone."""

    def __init__(self, root: Path):
        self.root, self.corpus = root, root / "tiny"
        self.done: set[tuple[str, str]] = set()
        write_corpus(self.corpus)

    def directory(self, name: str) -> Path:
        """Return where a recipe's results are."""
        return self.root / "runs" / name / self.corpus.name

    def run(self, name: str, stage: str, **changes: Any) -> None:
        """Run a stage, after those that it needs, with nothing but the recipe's name, what makes it
        tiny, and changes as ``train__lr``.
        """
        if (name, stage) in self.done:
            return
        recipe = load_recipe(name)
        if stage == "prepare" and recipe.prepared_from:
            return self.run(load_recipe(recipe.prepared_from).name, "prepare")
        if stage == "train" and recipe.pretrained_from:
            self.run(load_recipe(recipe.pretrained_from).name, "train")
        if stage != "prepare":
            self.run(name, NEEDED[stage], **changes)
        small = {
            f"{section}.{key}": value
            for section, options in SMALLER.items()
            for key, value in options.items()
            if section != "prepare" or not recipe.prepared_from
        }
        if recipe.average_checkpoints and "save-interval-updates" in recipe.options("train"):
            small["train.save-interval-updates"] = UPDATES  # else there is nothing to average
        small |= {key.replace("__", ".").replace("_", "-"): one for key, one in changes.items()}
        line = [name, str(self.corpus), stage, "--set", "devices=1"]
        for key, value in small.items():
            line += ["--set", f"{key}={value}"]
        logs = self.directory(name).glob(f"{stage}*.log")
        assert main(line) == 0, "\n".join(log.read_text()[-3000:] for log in logs)
        self.done.add((name, stage))


def write_corpus(folder: Path) -> None:
    """Write the first sentences of documents of the demonstration corpus."""
    for split, documents in write_splits(DOCUMENTS, seed=1).items():
        for side in SIDES:
            texts = [[getattr(line, side) for line in one.lines[:SENTENCES]] for one in documents]
            write_documents(raw_file(folder, SIDES, split, side), texts)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> Iterator[Workshop]:
    """One for all recipes, so that what several need is made once."""
    root = tmp_path_factory.mktemp("recipes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GTRANSFORMER_RUNS", str(root / "runs"))
        run_stages_here(patch, PROGRAMS)
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
    lines = read_jsonl(directory / "test.jsonl")
    assert sum(line["sentences"] for line in lines) == sentences
    if recipe.options("task").get("doc-mode") != "full":
        assert all(len(line["hypotheses"][0]["sentences"]) == line["sentences"] for line in lines)
    scores = read_json(directory / "test.scores.json")["scores"]
    assert list(scores) == ["raw", "release"]
    for one in scores.values():
        assert one["s_bleu"]["segments"] == sentences and one["s_bleu"]["signature"]
        assert one["d_bleu"]["segments"] == DOCUMENTS["test"]
    for stage in ("train", "generate.test", "score.test"):
        record = read_json(directory / f"{stage}.json")
        assert record["done"] and record["seconds"] >= 0
        assert (directory / f"{stage}.log").stat().st_size > 0


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


def check_export(directory: Path, corpus: Path, files: set[str]) -> None:
    """An exported model, alone, gives the translation that was scored."""
    model, text = directory / "model", directory / "translated.txt"
    assert export([str(directory), str(model), "--beam=2", "--max-len-a=0", "--max-len-b=3"]) == 0
    own = {"config.json", "manifest.json", "model.safetensors"}
    assert {path.name for path in model.iterdir()} == files | own
    shutil.rmtree(directory / "prepared")
    shutil.rmtree(directory / "checkpoints")
    source = corpus / "concatenated_en2de_test_en.txt"
    line = ["--model", model, source, "-o", text, "--cpu", "--quiet"]
    assert translate(list(map(str, line))) == 0
    found, expected = (
        path.read_text(encoding="utf-8").splitlines() for path in (text, directory / "test.txt")
    )
    assert found == [" ".join(line.split()) for line in expected]
    assert len(found) == (SENTENCES + 1) * DOCUMENTS["test"]


def test_mbart_from_text_to_scores(workshop: Workshop, tmp_path) -> None:
    """With a small mBART of fairseq's own class, and its SentencePiece model and dictionary."""
    model, table, weights = (tmp_path / name for name in ("spm.model", "dict.txt", "model.pt"))
    text = (workshop.corpus / "concatenated_en2de_train_de.txt").read_text(encoding="utf-8")
    learn_sentencepiece(text.splitlines(), model, 400)
    pieces = SentencePieces(model).words()[3:]  # without <unk>, <s> and </s>
    write_lines(table, (f"{piece} 1" for piece in pieces))
    given = {"prepare__sentencepiece": model, "prepare__dictionary": table}
    workshop.run("mbart", "prepare", **given)
    directory = workshop.directory("mbart")
    dictionary = Dictionary.load(str(directory / "prepared" / "bin" / "dict.en_XX.txt"))
    languages = load_recipe("mbart").options("task")["langs"].split(",")
    assert dictionary.symbols[4:] == [*pieces, *(f"[{lang}]" for lang in languages), "<mask>"]
    options = ("encoder_normalize_before", "decoder_normalize_before", "layernorm_embedding")
    own = dict.fromkeys(options, True)
    teacher = fairseq_models.build(dictionary, "mbart_large", **own)
    args = fairseq_models.settings("mbart_large", **own)
    torch.save(fairseq_models.checkpoint(teacher.state_dict(), args), weights)
    workshop.run("mbart", "score", **given, train__finetune_from_model=weights)
    log = (directory / "train.log").read_text()
    assert "initialised from a Transformer: 60 new parameters" in log
    files = {"dict.en_XX.txt", "dict.de_DE.txt", "sentencepiece.model"}
    check_export(directory, workshop.corpus, files)


def test_bert_from_text_to_scores(workshop: Workshop, tmp_path) -> None:
    """Wordpieces and a dictionary of their own on the source side, BPE on the target side."""
    skip_without_transformers()
    text = (workshop.corpus / "concatenated_en2de_train_en.txt").read_text(encoding="utf-8")
    words = sorted({*re.findall(r"\w+|[.,!?]", text.lower())} - {"d"})
    save_bert(tmp_path / "bert", words)
    changes = {
        "prepare__bert": tmp_path / "bert", "train__bert_checkpoint": tmp_path / "bert",
        "prepare__vocabulary_size": 100, "train__encoder_layers": 2,
        "task__max_source_positions": 64,
    }  # fmt: skip
    workshop.run("bert", "score", **changes)
    directory = workshop.directory("bert")
    dictionary = Dictionary.load(str(directory / "prepared" / "bin" / "dict.en.txt"))
    assert dictionary.symbols[4:] == [*words, "[en]", "[de]", "<mask>"]
    log = (directory / "train.log").read_text()
    assert f"encoder initialised from {tmp_path / 'bert'}" in log
    shutil.rmtree(tmp_path / "bert")  # a trained model is whole without it
    files = {"dict.en.txt", "dict.de.txt", "wordpieces.json", "bpe.codes", "truecase.de"}
    check_export(directory, workshop.corpus, files)


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


@pytest.mark.parametrize("loss", [2.0, 4.0])
def test_the_better_of_start_and_trained_model_is_the_recipes(loss, tmp_path):
    start, best = (tmp_path / name / "checkpoint_best.pt" for name in ("before", "checkpoints"))
    for path, value in ((start, loss), (best, 3.0)):
        path.parent.mkdir()
        saved = {"model": {"weight": torch.tensor(value)}, "extra_state": {"val_loss": value}}
        torch.save(saved, path)
    said = keep_better(start, best, higher_is_better=False)
    assert float(torch.load(best)["model"]["weight"]) == min(loss, 3.0)
    assert f"{loss:.3f}" in said and "3.000" in said and ("kept" in said) == (loss < 3.0)
