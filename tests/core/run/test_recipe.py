"""Recipes: what configs/ holds, how files are combined, what becomes of bad ones."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import yaml
from fairseq import options as fairseq_options
from fairseq.models import build_model

from gtransformer.cli.main import parse
from gtransformer.run.commands import on_device, to_arguments
from gtransformer.run.recipe import listing, load_recipe, recipe_names
from tests.core.models.fairseq_models import SIZES
from tests.support import tiny_dictionary, training_options

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", recipe_names())
def test_every_option_is_known_to_its_program(name: str):
    """Each program's own parser accepts the section, so that no recipe holds a misspelt option."""
    recipe = load_recipe(name)
    train = ["data", *to_arguments(recipe.training())]
    assert training_options(train).model._name == recipe.training()["arch"]
    generate = ["data", "--path", "x.pt", *to_arguments(recipe.options("task", "generate"))]
    assert (
        fairseq_options.parse_args_and_arch(fairseq_options.get_generation_parser(), generate).beam
        >= 1
    )
    parse("prepare", ["raw", "out", *to_arguments(recipe.options("prepare"))])
    parse("score", ["prepared", "--hypotheses", "x.jsonl", *to_arguments(recipe.options("score"))])


# Options of training that make another model or start.
SPECIAL = {
    "context-gate", "context-attention", "no-language-locality", "positions",
    "no-translation-locality",
    "neutral-gates", "batch-attention-in",
}  # fmt: skip


def one_of_each_kind() -> list[str]:
    """Recipes that differ in more than sizes and ablations."""
    found: dict[tuple, str] = {}
    for name in sorted(recipe_names()):
        recipe = load_recipe(name)
        task, train = recipe.options("task"), recipe.options("train")
        special = {option: train[option] for option in sorted(SPECIAL & train.keys())}
        system = str(train.get("arch")).rpartition("_")[0]
        if "bert-checkpoint" not in train:
            found.setdefault(
                (system, str(special), task.get("instances"), task.get("doc-mode")), name
            )
    return list(found.values())


@pytest.mark.parametrize("name", one_of_each_kind())
def test_the_model_of_a_recipe_can_be_built(name: str):
    train = load_recipe(name).training() | {
        key.replace("_", "-"): value for key, value in SIZES.items()
    }
    cfg = training_options(["data", *to_arguments(on_device(train, 0))])
    dictionary = tiny_dictionary(langs=tuple(cfg.task.langs.split(",")))
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = build_model(cfg.model, task)
    assert sum(parameter.numel() for parameter in model.parameters()) > 1000


def test_hydra_has_the_options_of_base():
    """configs/hydra/base.yaml, for fairseq-hydra-train: what fairseq makes of the recipe's
    options.
    """
    config = yaml.safe_load((ROOT / "configs" / "hydra" / "base.yaml").read_text(encoding="utf-8"))
    wanted = training_options(["DATA", *to_arguments(load_recipe("base").training())])
    del config["task"]["data"], config["common"]["user_dir"]
    for group, options in config.items():
        assert options == {key: wanted[group][key] for key in options}, group
    given = {option.replace("-", "_") for option in load_recipe("base").training()}
    named = {"task", "arch", "criterion", "optimizer", "lr_scheduler"}
    assert given - named <= {key for group in config.values() for key in group}


def test_every_recipe_is_listed():
    lines = listing().splitlines()[1:]
    assert [line.split()[0] for line in lines] == recipe_names()
    for line, name in zip(lines, recipe_names(), strict=True):
        assert load_recipe(name).description in line, name


def test_changes_from_the_command_line():
    recipe = load_recipe(
        "base", ["train.max-update=10", "train.patience=", "task.doc-mode=full", "devices=1"]
    )
    train = recipe.options("train")
    assert train["max-update"] == 10 and "patience" not in train
    assert recipe.options("task")["doc-mode"] == "full" and recipe.devices == 1
    # null takes an option from one stage, and a start from a recipe.
    recipe = load_recipe("short_context", ["generate.instances=", "pretrained-from=null"])
    assert "instances" not in recipe.options("task", "generate")
    assert recipe.training()["instances"] == "disjoint"
    assert load_recipe("docflat/d", ["pretrained-from="]).pretrained_from is None


def write(directory: Path, name: str, text: str) -> str:
    path = directory / f"{name}.yaml"
    path.write_text(text)
    return str(path)


def test_own_recipe_on_top_of_another(tmp_path: Path):
    mine = write(tmp_path, "mine", "based-on: docflat/d\ntrain:\n  lr: 1e-4\n  warmup-updates: 7\n")
    recipe = load_recipe(
        write(tmp_path, "more", f"based-on: {mine}\ntrain:\n  lr: 2e-4\n  fp16: null\n")
    )
    assert (recipe.name, recipe.pretrained_from) == ("more", "docflat/sentences")
    train = recipe.options("train")
    assert (train["lr"], train["warmup-updates"], train["dropout"]) == ("2e-4", 7, 0.3)
    assert "fp16" not in train
