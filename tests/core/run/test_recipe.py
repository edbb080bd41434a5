"""Recipes: what configs/ holds, how files are combined, what becomes of bad ones."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import yaml
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model

from gtransformer.cli.prepare import build_parser as prepare_parser
from gtransformer.cli.score import build_parser as score_parser
from gtransformer.errors import UserError
from gtransformer.run.commands import to_arguments, without_half_precision
from gtransformer.run.recipe import (
    beside,
    find_recipe,
    language_changes,
    listing,
    load_recipe,
    recipe_names,
    sized,
)
from tests.core.models.fairseq_models import SIZES
from tests.support import tiny_dictionary

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", recipe_names())
def test_every_option_is_known_to_its_program(name: str):
    """Each program's own parser accepts the section, so that no recipe holds a misspelt option."""
    recipe = load_recipe(name)
    train = ["data", *to_arguments(recipe.training())]
    parsed = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), train)
    assert parsed.arch == recipe.training()["arch"]
    generate = ["data", "--path", "x.pt", *to_arguments(recipe.options("task", "generate"))]
    assert fairseq_options.parse_args_and_arch(fairseq_options.get_generation_parser(), generate).beam >= 1
    prepare_parser().parse_args(["raw", "out", *to_arguments(recipe.options("prepare"))])
    score_parser().parse_args(["prepared", "--hypotheses", "x.jsonl", *to_arguments(recipe.options("score"))])


# Options of training that make another model or start.
SPECIAL = {
    "context-gate", "context-attention", "no-language-locality", "positions", "no-translation-locality",
    "neutral-gates", "batch-attention-in",
}  # fmt: skip


def one_of_each_kind() -> list[str]:
    """Recipes that differ in more than sizes and ablations."""
    found: dict[tuple, str] = {}
    for name in sorted(recipe_names()):
        recipe = load_recipe(name)
        task, train = recipe.sections["task"], recipe.sections["train"]
        special = {option: train[option] for option in sorted(SPECIAL & train.keys())}
        system = str(train.get("arch")).rpartition("_")[0]
        if "bert-checkpoint" not in train:
            found.setdefault((system, str(special), task.get("instances"), task.get("doc-mode")), name)
    return list(found.values())


@pytest.mark.parametrize("name", one_of_each_kind())
def test_the_model_of_a_recipe_can_be_built(name: str):
    train = load_recipe(name).training() | {key.replace("_", "-"): value for key, value in SIZES.items()}
    arguments = ["data", *to_arguments(without_half_precision(train))]
    parsed = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), arguments)
    cfg = convert_namespace_to_omegaconf(parsed)
    dictionary = tiny_dictionary(langs=tuple(parsed.langs.split(",")))
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = build_model(cfg.model, task)
    assert sum(parameter.numel() for parameter in model.parameters()) > 1000


def test_hydra_has_the_options_of_base():
    """configs/hydra/base.yaml, for fairseq-hydra-train: what fairseq makes of the recipe's options."""
    config = yaml.safe_load((ROOT / "configs" / "hydra" / "base.yaml").read_text(encoding="utf-8"))
    arguments = ["DATA", *to_arguments(load_recipe("base").training())]
    parsed = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), arguments)
    wanted = convert_namespace_to_omegaconf(parsed)
    del config["task"]["data"], config["common"]["user_dir"]
    for group, options in config.items():
        assert options == {key: wanted[group][key] for key in options}, group
    given = {option.replace("-", "_") for option in load_recipe("base").training()}
    named = {"task", "arch", "criterion", "optimizer", "lr_scheduler"}
    assert given - named <= {key for group in config.values() for key in group}


def test_every_recipe_is_listed():
    lines = listing().splitlines()
    assert [line.split()[0] for line in lines] == recipe_names()
    for line, name in zip(lines, recipe_names(), strict=True):
        description = load_recipe(name).description
        assert description and description in line, name
    claimed = [(name, place) for name in recipe_names() for place in load_recipe(name).rows.items() if place[1]]
    assert len({place for _, place in claimed}) == len(claimed) > 10, "a row has one recipe"
    assert load_recipe("cpu_small").rows == {}, "rows are not inherited"


def test_to_arguments():
    options = {"lr": "5e-4", "fp16": True, "cpu": False, "betas": "(0.9, 0.98)", "many": [1, 2], "none": None}
    assert to_arguments(options) == ["--lr", "5e-4", "--fp16", "--betas", "(0.9, 0.98)", "--many", "1", "2"]


def test_changes_from_the_command_line():
    recipe = load_recipe("base", ["train.max_update=10", "train.patience=", "task.doc-mode=full", "devices=1"])
    train = recipe.sections["train"]
    assert train["max-update"] == 10 and "patience" not in train
    assert recipe.sections["task"]["doc-mode"] == "full" and recipe.devices == 1


def write(directory: Path, name: str, text: str) -> str:
    path = directory / f"{name}.yaml"
    path.write_text(text)
    return str(path)


def test_own_recipe_on_top_of_another(tmp_path: Path):
    write(tmp_path, "mine", "based-on: base\ntrain:\n  lr: 1e-4\n  warmup_updates: 7\n")
    recipe = load_recipe(write(tmp_path, "more", "based_on: mine\ntrain:\n  lr: 2e-4\n  fp16: null\n"))
    assert recipe.name == "more"
    train = recipe.sections["train"]
    assert (train["lr"], train["warmup-updates"], train["dropout"]) == ("2e-4", 7, 0.3)
    assert "fp16" not in train


def test_an_option_of_all_stages_is_not_removed_for_one():
    """It would still hold there; given another value, or removed for all, it does not."""
    for section in ("train", "generate"):
        with pytest.raises(UserError, match=rf"{section}\.instances is removed, but task\.instances is disjoint"):
            load_recipe("short_context", [f"{section}.instances="])
    assert (
        load_recipe("short_context", ["generate.instances=stored"]).options("task", "generate")["instances"] == "stored"
    )
    load_recipe("sent_base", ["task.instances=", "generate.instances="])


def test_changes_that_make_another_model():
    """Not where the recipe's own files lie, nor which reference is scored; a file for a recipe without one is."""
    moved = ["prepare.sentencepiece=a", "prepare.dictionary=b", "train.finetune_from_model=c", "score.reference=raw"]
    assert load_recipe("mbart", moved).changes == []
    assert load_recipe("bert", ["prepare.bert=a", "train.bert-checkpoint=b", "score.reference=raw"]).changes == []
    real = ["train.finetune-from-model=c", "train.lr=1", "devices=2"]
    assert load_recipe("base", real).changes == real
    assert load_recipe("mbart", ["train.finetune-from-model="]).changes == ["train.finetune-from-model="]
    assert load_recipe("base").changes == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], None),
        (["prepare.max-sents=1"], 1),
        (["task.instances=disjoint", "task.context-sentences=2"], 3),
        (["prepare.max-sents=1", "task.instances=greedy", "task.instance-tokens=256"], None),
        (["prepare.max-sents=9", "task.instances=disjoint", "task.context-sentences=0"], 1),
        (["task.instances=sliding", "task.context-sentences=1", "task.batch-order=document"], 2),
        (["task.instances=current", "task.context-sentences=2", "task.target-context-sentences=2"], 3),
        (["prepare.max-sents=9", "task.instances=stored"], 9),
    ],
)
def test_sentences_of_an_instance(changes, expected):
    """As prepared, or as grouped when loaded, for training and generation alike."""
    recipe = load_recipe("base", changes)
    assert recipe.max_sentences == expected


def test_recipes_in_folders_are_called_by_folder_and_file():
    """Their runs lie apart, too: three recipes are called base."""
    names = recipe_names()
    assert {"base", "window/base", "lst/base", "table6_group"} <= set(names) and "ablations/table6_group" not in names
    for name in names:
        assert load_recipe(name).name == name
        assert load_recipe(str(find_recipe(name))).name == name, "named by its file"


def test_switches_are_on_and_off(tmp_path: Path):
    """YAML reads them as true and false; an option that is false would be left out, and so be on."""
    path = write(tmp_path, "mine", "based-on: concatenation/two\ntask:\n  context-loss: off\n")
    recipe = load_recipe(path, ["generate.sentence-rule=off", "task.sentence_rule=on"])
    assert recipe.sections["task"]["context-loss"] == "off" and recipe.sections["task"]["sentence-rule"] == "on"
    assert recipe.sections["generate"]["sentence-rule"] == "off"


def test_a_start_that_is_taken_away():
    """``--set pretrained-from=``: from random weights."""
    changes = ["pretrained-from=", "train.load-partial="]
    recipe = load_recipe("arena/lst", changes)
    assert load_recipe("arena/lst").pretrained_from == "start" and recipe.pretrained_from is None
    assert recipe.changes == changes
    with pytest.raises(UserError, match="--set pretrained-from=base: write SECTION.OPTION=VALUE"):
        load_recipe("arena/lst", ["pretrained-from=base"])


def test_what_a_base_of_another_folder_names_is_beside_that_base(tmp_path):
    """A recipe of a user's own, based on one that starts from its neighbour; by way of another, too."""
    (tmp_path / "mine.yaml").write_text("based-on: arena/documents\n", encoding="utf-8")
    (tmp_path / "further.yaml").write_text("based-on: mine\n", encoding="utf-8")
    for name in ("mine", "further"):
        recipe = str(tmp_path / f"{name}.yaml")
        assert load_recipe(recipe).pretrained_from == "start" and beside(recipe, "start") == "arena/start"
        assert beside(recipe, "cpu_small_sent") == "cpu_small_sent"
    (tmp_path / "own.yaml").write_text("based-on: window/base\npretrained-from: base\n", encoding="utf-8")
    assert beside(str(tmp_path / "own.yaml"), "base") == "base", "said by the recipe itself, not window/base"
    (tmp_path / "base.yaml").write_text("based-on: cpu_tiny\n", encoding="utf-8")
    assert beside(str(tmp_path / "own.yaml"), "base") == str(tmp_path / "base.yaml")
    assert beside("arena/documents", "start") == "arena/start"


def test_small_recipes_differ_by_size_alone():
    """A small recipe has a name of its own, and all that it needs is small, too."""
    changed = {}
    for name in ("base", "sent_base", "docflat/c", "window/base"):
        full, small = load_recipe(name), load_recipe(sized(name, "small"))
        assert small.name == sized(name, "small") and small.training()["arch"] == full.training()["arch"].replace(
            "_base", "_compact"
        )
        options = full.options("task", "train").items() ^ small.options("task", "train").items()
        changed[small.name] = {key for key, _ in options}
        assert not changed[small.name] & {"instances", "context-sentences", "window", "context-gate", "load-partial"}
        assert small.rows == {} and small.devices == 1
    assert "doc-noise-mask" in changed["cpu_small"] and "doc-noise-mask" not in changed["cpu_small_sent"]
    small = load_recipe("docflat/small_c")
    assert (small.prepared_from, small.pretrained_from) == ("docflat/small_sentences",) * 2
    assert small.sections["train"]["lr"] == "4e-4", "as that of docflat/doc2doc, which it is based on"
    with pytest.raises(UserError, match="--size small: recipe 'big' has only one size"):
        sized("big", "small")


@pytest.mark.parametrize("changes", [["task.target-lang=no"], language_changes("base", "en,no")])
def test_norwegian_is_no_boolean(changes, tmp_path):
    assert load_recipe("base", changes).pair == ("en", "no")
    (tmp_path / "mine.yaml").write_text("based-on: base\ntask: {source-lang: no}\n")
    recipe = load_recipe(str(tmp_path / "mine.yaml"))
    assert recipe.pair == ("no", "de") and recipe.training()["source-lang"] == "no"
