"""Recipes: what configs/ holds, how files are combined, what becomes of bad ones.

The numbers of every recipe are checked in test_recipe_values.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fairseq import options as fairseq_options

from gtransformer.cli.prepare import build_parser as prepare_parser
from gtransformer.cli.score import build_parser as score_parser
from gtransformer.errors import UserError
from gtransformer.run.commands import to_arguments, without_half_precision
from gtransformer.run.recipe import beside, find_recipe, listing, load_recipe, recipe_names
from gtransformer.run.recipe_check import check_recipe
from gtransformer.run.run_record import stage_changes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SINGLE = {"instances": "disjoint", "context-sentences": 0}  # sentences


def test_baselines_differ_from_base_only_as_they_say():
    base, document, sentence = (load_recipe(name) for name in ("base", "doc_base", "sent_base"))
    changed = base.options("task", "train").items() ^ document.options("task", "train").items()
    assert {key for key, _ in changed} == {"doc-mode", "doc-noise-mask", "doc-noise-epochs"}
    assert document.prepared_from == "base" and document.sections["task"]["doc-mode"] == "full"
    assert sentence.options("task", "train") == document.options("task", "train") | SINGLE
    assert sentence.prepared_from == "base" and sentence.sections["prepare"] == base.sections["prepare"]


@pytest.mark.parametrize("name", recipe_names())
def test_every_option_is_known_to_its_program(name: str):
    """Each program's own parser accepts the section, so that no recipe holds a misspelt option."""
    recipe = load_recipe(name)
    train = ["data", *to_arguments(recipe.training())]
    args = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), train)
    assert args.criterion == "fused_label_smoothed_cross_entropy"
    assert re.match("((g|doc_|lst_|window_|document_|flat_)transformer|docflat|mbe|abd)_", args.arch)
    generate = ["data", "--path", "x.pt", *to_arguments(recipe.options("task", "generate"))]
    assert fairseq_options.parse_args_and_arch(fairseq_options.get_generation_parser(), generate).beam >= 1
    prepare_parser().parse_args(["raw", "out", *to_arguments(recipe.options("prepare"))])
    score_parser().parse_args(["prepared", "--hypotheses", "x.jsonl", *to_arguments(recipe.options("score"))])


@pytest.mark.parametrize("name", recipe_names())
def test_every_number_is_commented(name: str):
    """A reader can tell where each number of the base recipe comes from, and every recipe says what it is."""
    text = find_recipe(name).read_text()
    assert text.startswith("# ") and load_recipe(name).description
    if name in ("base", "concatenation/sentences"):
        numbers = [line for line in text.splitlines() if re.match(r"\s+[\w-]+: [\d(]", line)]
        uncommented = [line for line in numbers if "#" not in line]
        # A line without comment stands below the one whose comment it shares.
        assert {line.split(":")[0].strip() for line in uncommented} <= {
            "decoder-ctxlayers", "cross-ctxlayers", "context-sentences", "max-len-b"
        }  # fmt: skip


def test_every_recipe_is_listed_and_documented():
    lines = listing().splitlines()
    assert [line.split()[0] for line in lines] == recipe_names()
    for line, name in zip(lines, recipe_names(), strict=True):
        assert load_recipe(name).description in line
    assert lines[0].endswith("[Table 2, Table 5, Table 6, Table 7, section 5.4]")
    (window,) = [line for line in lines if line.split()[0] == "concatenation/one"]
    assert window.endswith("[window-attention Table 1]")
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert "docs/recipes.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    for name in recipe_names():
        assert f"`{name}`" in page, name
        for row in filter(None, load_recipe(name).rows.values()):
            assert f"| {row} | `{name}` |" in page, row


def test_to_arguments():
    options = {"lr": "5e-4", "fp16": True, "cpu": False, "betas": "(0.9, 0.98)", "many": [1, 2], "none": None}
    assert to_arguments(options) == ["--lr", "5e-4", "--fp16", "--betas", "(0.9, 0.98)", "--many", "1", "2"]


def test_half_precision_is_for_gpus():
    assert without_half_precision({"fp16": True, "bf16": True, "lr": 1}) == {"lr": 1}


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


def test_unknown_recipe_names_those_called_alike():
    with pytest.raises(UserError, match="unknown recipe 'doc_bsae': there are doc_base,? .*and others") as caught:
        load_recipe("doc_bsae")
    assert len(str(caught.value)) < 200


def test_fine_tuning_differs_from_base_only_as_it_says():
    """Appendix C.1, "Fine-tuned on Sentence-Level Transformer"; everything else is as for random initialisation."""
    base, recipe = load_recipe("base"), load_recipe("doc_base_finetune")
    changed = {key for key, _ in base.options("task", "train").items() ^ recipe.options("task", "train").items()}
    assert changed == {
        "load-partial", "doc-double-lr", "lr-scale-pretrained", "doc-noise-mask", "doc-noise-epochs"
    }  # fmt: skip
    assert (recipe.prepared_from, recipe.pretrained_from) == ("base", "sent_base")
    assert load_recipe(recipe.pretrained_from).prepared_from == recipe.prepared_from  # one corpus, one dictionary


LANGUAGES = "ar cs de en es et fi fr gu hi it ja kk ko lt lv my ne nl ro ru si tr vi zh".split()  # of mBART25


def test_mbart_has_its_languages():
    """In the order of mBART25's embedding."""
    train = load_recipe("mbart").options("task", "train")
    assert [lang.partition("_")[0] for lang in train["langs"].split(",")] == LANGUAGES
    assert {train["source-lang"], train["target-lang"]} <= set(train["langs"].split(","))


def test_baselines_of_mbart_differ_from_it_only_as_they_say():
    group, document, sentence = (load_recipe(name) for name in ("mbart", "doc_mbart", "sent_mbart"))
    changed = group.options("task", "train").items() ^ document.options("task", "train").items()
    assert {key for key, _ in changed} == {"doc-mode"} and document.sections["task"]["doc-mode"] == "full"
    assert document.prepared_from == sentence.prepared_from == "mbart"
    assert sentence.options("task", "train") == document.options("task", "train") | SINGLE
    assert sentence.sections["prepare"] == group.sections["prepare"]


def test_bert_differs_from_base_only_as_it_says():
    """The paper gives no settings for it: what a BERT wants, and the word dropout and two rates of appendix C.1."""
    base, bert = (load_recipe(name).options("task", "train") for name in ("base", "bert"))
    assert {key for key, _ in base.items() ^ bert.items()} == {
        "arch", "bert-checkpoint", "max-source-positions", "share-all-embeddings", "share-decoder-input-output-embed",
        "dropout", "attention-dropout", "doc-double-lr", "lr-scale-pretrained", "doc-noise-mask",
        "doc-noise-epochs",
    }  # fmt: skip
    assert load_recipe("bert").options("prepare")["bert"] == bert["bert-checkpoint"]


def test_changes_that_make_another_model():
    """Not where the recipe's own files lie, nor which reference is scored; a file for a recipe without one is."""
    moved = ["prepare.sentencepiece=a", "prepare.dictionary=b", "train.finetune_from_model=c", "score.reference=raw"]
    assert load_recipe("mbart", moved).changes == []
    assert load_recipe("bert", ["prepare.bert=a", "train.bert-checkpoint=b", "score.paper=true"]).changes == []
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
    check_recipe(recipe, ("train", "generate"))


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
    check_recipe(recipe, ("train", "generate"))


def test_what_is_frozen_is_not_rounded(monkeypatch):
    """Half precision is known before anything runs, where there is a GPU to train on; the study has none."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    frozen = ["train.trained-parameters=top", "train.finetune-from-model="]
    with pytest.raises(UserError, match="--trained-parameters top: --fp16 rounds all parameters, also those"):
        check_recipe(load_recipe("gtransformer/warm_small", frozen), ["train"])
    check_recipe(load_recipe("gtransformer/warm_small", [*frozen, "train.fp16=", "train.amp=true"]), ["train"])
    check_recipe(load_recipe("gtransformer/warm_small"), ["train"])


def test_a_start_that_is_taken_away():
    """``--set pretrained-from=``: from random weights, which the record of the training says."""
    changes = ["pretrained-from=", "train.load-partial="]
    recipe = load_recipe("arena/lst", changes)
    assert load_recipe("arena/lst").pretrained_from == "start" and recipe.pretrained_from is None
    assert stage_changes("train", recipe.changes, []) == changes and stage_changes("prepare", recipe.changes, []) == []
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


def test_what_a_program_refuses_is_said_once():
    """By its parser, and of options that contradict each other."""
    for change in ("train.max-tokens=many", "train.no-such-option=1", "task.instance-tokens=0"):
        with pytest.raises(UserError) as caught:
            check_recipe(load_recipe("base", [change]), ["train"])
        assert str(caught.value).count("recipe 'base', stage train: ") == 1
