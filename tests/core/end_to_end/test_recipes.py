"""Recipes as gtransformer run drives them, on a few short documents with a tiny model.

One recipe of each kind goes from text to scores; all are parsed, and models of each kind built, in
tests/core/run/test_recipe.py. The stages run in this process (tests/in_process.py);
test_run.py beside it has them in processes of their own. Whatever a recipe takes from another (prepared corpus,
dictionary, checkpoint) is made first, by that recipe.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gtransformer.cli.run import main
from gtransformer.files import read_json, write_json
from gtransformer.lab.demo.corpus import SIDES, write_splits
from gtransformer.run import stage as stages
from gtransformer.run.before import keep_better, verdict
from gtransformer.run.commands import on_device
from gtransformer.run.recipe import Options, load_recipe
from tests.bert import save_bert, skip_without_transformers
from tests.core.models import fairseq_models
from tests.in_process import run_module

pytestmark = pytest.mark.slow

DOCUMENTS = {"train": 16, "dev": 2, "test": 2}
SENTENCES = 5  # of the beginning of each document of the demonstration corpus
UPDATES = 2
# A recipe of each kind, for what it alone has of what runs: the model from scratch; fine-tuned from another recipe's
# model at two rates; BERT's pieces and parameters; concatenation, translated on other instances; windows.
# mBART is in test_pretrained_corpora.py, context beside the sentence in test_two_steps_recipe.py.
KINDS = ["base", "doc_base_finetune", "bert", "concatenation/two", "window/base"]
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

    def prepared(self, name: str) -> Path:
        """The prepared corpus that a recipe uses."""
        return self.directory(load_recipe(name).prepared_from or name) / "prepared"

    def changes(self, name: str) -> dict[str, Options]:
        """What is set to another value than in the recipe, by section."""
        recipe = load_recipe(name)
        changes = {section: dict(options) for section, options in SMALLER.items()}
        pretrained = self.root / "pretrained"
        if "bert" in recipe.sections["prepare"]:
            changes["prepare"]["bert"] = changes["train"]["bert-checkpoint"] = pretrained / "bert"
            changes["train"]["encoder-layers"] = 2
        if recipe.averaged and "save-interval-updates" in recipe.sections["train"]:
            changes["train"]["save-interval-updates"] = UPDATES  # else there is nothing to average
        if recipe.prepared_from:
            del changes["prepare"]
        return changes

    def run(self, name: str, stage: str) -> None:
        """A stage, after those that it needs, with nothing but the recipe's name and the changes."""
        if (name, stage) in self.done:
            return
        recipe = load_recipe(name)
        if stage == "prepare":
            if recipe.prepared_from:
                return self.run(recipe.prepared_from, "prepare")
            self.make_pretrained_pieces(recipe.sections["prepare"])
        elif stage == "train":
            self.run(name, "prepare")
            if recipe.pretrained_from:
                self.run(recipe.pretrained_from, "train")
        else:
            self.run(name, "train" if stage == "generate" else "generate")
        status = main(self.line(name, stage))
        logs = self.directory(name).glob(f"{stage}*.log")
        assert status == 0, "\n".join(log.read_text()[-3000:] for log in logs)
        self.done.add((name, stage))

    def line(self, name: str, stage: str) -> list[str]:
        """The driver's arguments for a stage of a recipe, made tiny."""
        line = [name, str(self.corpus), stage, "--set", "devices=1"]
        for section, options in self.changes(name).items():
            for key, value in options.items():
                line += ["--set", f"{section}.{key}={value}"]
        return line

    def make_pretrained_pieces(self, options: Options) -> None:
        """A small BERT with its wordpieces."""
        folder = self.root / "pretrained"
        folder.mkdir(exist_ok=True)
        texts = [self.corpus / f"concatenated_en2de_train_{side}.txt" for side in SIDES]
        if "bert" in options:
            skip_without_transformers()
            words = sorted({word.strip(".,!?").lower() for word in texts[0].read_text().split()} - {"<d>", ""})
            save_bert(folder / "bert", [*words, ".", ",", "!", "?"], max_position_embeddings=512)


def write_corpus(folder: Path) -> None:
    """The first sentences of documents of the demonstration corpus, in the raw corpus format."""
    folder.mkdir(parents=True)
    for split, documents in write_splits(DOCUMENTS, seed=1).items():
        for side in SIDES:
            lines = []
            for document in documents:
                lines += ["<d>", *(getattr(line, side) for line in document.lines[:SENTENCES])]
            (folder / f"concatenated_en2de_{split}_{side}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> Iterator[Workshop]:
    """One for all recipes, so that what several need is made once."""
    root = tmp_path_factory.mktemp("recipes")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # runpy's, of modules that are imported already
        patch.setenv("GTRANSFORMER_RUNS", str(root / "runs"))
        patch.setattr(stages, "run_logged", run_module)
        yield Workshop(root)


def options_of(configuration: dict) -> dict[str, list]:
    """What fairseq noted of each option, under its dashed name, in whichever sections it stands."""
    found: dict[str, list] = {}
    for section, content in configuration.items():
        if isinstance(content, dict):
            for key, value in content.items():
                found.setdefault({"_name": {"model": "arch"}.get(section, section)}.get(key, key), []).append(value)
    return {key.replace("_", "-"): values for key, values in found.items()}


def same(found: object, expected: object) -> bool:
    """Are a value of the checkpoint and one of the recipe the same, however they are written?"""
    found = found[0] if isinstance(found, list) and len(found) == 1 else found
    try:
        return float(found) == float(expected)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(found).strip("()[]").replace("'", "") == str(expected).strip("()[]")


def check_options(workshop: Workshop, name: str, configuration: dict, different: Options) -> None:
    """Every option of the recipe that was not changed stands in fairseq's configuration, but for ``different`` ones."""
    noted, changed = options_of(configuration), workshop.changes(name)["train"]
    recipe = load_recipe(name)
    options = recipe.training()
    if not torch.cuda.is_available():
        options = on_device(options, 0)
    options |= different
    if recipe.pretrained_from and "stop-time-hours" in options:  # what the pretrained model took comes on top
        assert 0 <= noted["stop-time-hours"][0] - options.pop("stop-time-hours") < 0.1
    for key, value in options.items():
        if key not in changed:
            assert any(same(one, value) for one in noted[key]), (key, value, noted[key])


@pytest.mark.parametrize("name", KINDS)
def test_recipe_from_text_to_scores(workshop: Workshop, name: str) -> None:
    recipe = load_recipe(name)
    workshop.run(name, "score")
    directory = workshop.directory(name)

    checkpoint = torch.load(directory / "checkpoints" / "checkpoint_best.pt")
    assert checkpoint["optimizer_history"][-1]["num_updates"] == UPDATES
    assert all(value.isfinite().all() for value in checkpoint["model"].values())
    two_rates = {"optimizer": "adam_two_rates"} if recipe.options("train").get("doc-double-lr") else {}
    check_options(workshop, name, checkpoint["cfg"], two_rates)

    sentences = DOCUMENTS["test"] * SENTENCES
    lines = [json.loads(line) for line in (directory / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(line["sentences"] for line in lines) == sentences
    if recipe.sections["task"].get("doc-mode") != "full":
        assert all(len(line["hypotheses"][0]["sentences"]) == line["sentences"] for line in lines)
    scores = json.loads((directory / "test.scores.json").read_text(encoding="utf-8"))["scores"]
    assert list(scores) == ["raw", "release"], "whatever cuts the corpus: BPE, BERT's pieces on the source side"
    for one in scores.values():
        assert one["s_bleu"]["segments"] == sentences and one["d_bleu"]["segments"] == DOCUMENTS["test"]


def test_fine_tuning_starts_from_the_sentence_transformer(workshop: Workshop) -> None:
    """Two updates at the beginning of 4,000 of warm-up move nothing far: its parameters are still recognisable."""
    workshop.run("doc_base_finetune", "train")
    states = [
        torch.load(workshop.directory(name) / "checkpoints" / "checkpoint_best.pt")["model"]
        for name in ("sent_base", "doc_base_finetune")
    ]
    shared = {name for name in states[0] if name in states[1] and states[0][name].dim() == 2}
    assert {"encoder.layers.0.self_attn_local.q_proj.weight", "decoder.layers.2.fc1.weight"} <= shared
    assert all((states[0][name] - states[1][name]).abs().max() < 1e-4 for name in shared)
    assert [name for name in states[1] if "_global." in name] and not [name for name in states[0] if "_global." in name]


def test_the_start_is_measured_beside_the_trained_model(workshop: Workshop, capsys) -> None:
    """One update at a learning rate of zero saves it; the sentence model's parameters are in it to the bit."""
    workshop.run("from_sentence_model", "score")
    before = workshop.directory("from_sentence_model") / "before"
    start, sentences = (
        torch.load(folder / "checkpoint_best.pt")["model"]
        for folder in (before, workshop.directory("sent_base") / "checkpoints")
    )
    kept = [name for name in start if name.endswith(("fc1.weight", "embed_tokens.weight", "fc2.bias"))]
    assert len(kept) > 6 and all(torch.equal(start[name], sentences[name]) for name in kept)
    result = read_json(before / "test.scores.json")
    assert (result["baseline"], list(result["systems"])) == ("before", ["before", "after"])
    assert {"s_bleu", "d_bleu"} <= result["significance"]["raw"].keys()
    losses = read_json(before / "losses.json")
    assert f"dev loss: {losses['before']:.3f} before training, {losses['after']:.3f} after" in capsys.readouterr().out


def checkpoint(path: Path, loss: float) -> Path:
    path.parent.mkdir(exist_ok=True)
    torch.save({"model": {"weight": torch.tensor(loss)}, "extra_state": {"val_loss": loss}}, path)
    return path


@pytest.mark.parametrize(("loss", "kept"), [(2.0, True), (4.0, False)])
def test_the_better_of_start_and_trained_model_is_the_recipes(loss, kept, tmp_path):
    start = checkpoint(tmp_path / "before" / "checkpoint_best.pt", loss)
    best = checkpoint(tmp_path / "checkpoints" / "checkpoint_best.pt", 3.0)
    keep_better(start.parent, best, load_recipe("few_documents"))
    assert float(torch.load(best)["model"]["weight"]) == min(loss, 3.0)
    assert read_json(start.parent / "losses.json") == {"before": loss, "after": 3.0, "kept": kept}


@pytest.mark.parametrize(
    ("kept", "difference", "p_value", "said"),
    [
        (True, 0.0, 1.0, "was kept"),
        (False, -6.7, 0.008, "translates better"),
        (False, -6.7, None, ""),
        (False, 1.0, 0.01, ""),
    ],
)
def test_a_start_that_was_better_is_named(kept, difference, p_value, said, tmp_path):
    write_json(tmp_path / "losses.json", {"before": 2.0, "after": 1.5, "kept": kept})
    found = {"difference": difference, "p_value": p_value}
    write_json(tmp_path / "test.scores.json", {"significance": {"raw": {"s_bleu": {"after": found}}}})
    first, *rest = verdict(tmp_path, "test").splitlines()
    assert first == "dev loss: 2.000 before training, 1.500 after" and bool(rest) == bool(said)
    assert said in " ".join(rest)
