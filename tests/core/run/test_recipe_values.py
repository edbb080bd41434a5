"""Every recipe's numbers against those of its sources: the papers, the authors' releases, Liu et al. (2020).

FIGURES (in recipe_figures.py) states each figure once, with its source and the recipes that it is meant for; the
recipes' comments must name the same source. A new recipe joins the sets there, or stands in OURS with what differs
from another one.
"""

from __future__ import annotations

import re
from argparse import Namespace
from functools import cache

import pytest
from fairseq import options as fairseq_options
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf

from gtransformer.models.gtransformer.layers import COMBINED, GLOBAL, GROUP, attention_kinds
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import Recipe, find_recipe, load_recipe, recipe_names, recipes_of_rows
from tests.core.run.recipe_figures import FIGURES, LABELS, LONG_CONTEXT, OF_PAPERS, OTHERS, OURS, ROWS, VARIANTS
from tests.support import SHARED

KEPT = ("keep-last-epochs", "keep-interval-updates")  # of checkpoints to be averaged
LETTERS = {GROUP: "g", COMBINED: "c", GLOBAL: "d"}  # d: over the whole document


def training_options(recipe: Recipe) -> Namespace:
    """All options of fairseq-train, sizes of the architecture and defaults filled in by its own configuration."""
    line = ["data", *to_arguments(recipe.training())]
    parsed = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), line)
    return Namespace(**{**sizes_of(parsed.arch), **vars(parsed)})


@cache
def sizes_of(arch: str) -> dict:
    """The defaults of an architecture's own configuration, which fairseq's parser leaves to what builds the model."""
    cfg = OmegaConf.structured(getattr(ARCH_MODEL_REGISTRY[arch], "__dataclass", None) or {})
    return OmegaConf.to_container(cfg, enum_to_str=True)


def values(recipe: Recipe) -> dict:
    """What a recipe comes to, under the names of FIGURES."""
    train = training_options(recipe)
    prepare, generate = recipe.options("prepare"), recipe.options("generate")
    fields = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    sides = ("encoder", "decoder", "cross") if train.arch.startswith("gtransformer") else ()
    kinds = ["".join(LETTERS[kind] for kind in attention_kinds(train, part)) for part in sides]
    walk = {"instances": "stored", "strategy": "full"} | recipe.options("task", "generate")
    (lr,), (update_freq,) = train.lr, train.update_freq
    init, updates = getattr(train, "warmup_init_lr", -1), getattr(train, "total_num_update", None)
    as_they_are = (
        "arch", "doc_mode", "decoder_start", "share_all_embeddings", "dropout", "attention_dropout", "doc_noise_mask",
        "label_smoothing", "criterion", "optimizer", "adam_betas", "adam_eps", "lr_scheduler", "warmup_updates",
        "max_update", "patience", "max_tokens", "load_partial", "context_loss", "sentence_rule", "max_pair_tokens",
        "batch_order", "join_documents",
    )  # fmt: skip
    of_some = (
        "context_layers", "context_in", "context_join", "current_layers", "freeze_sentence_parameters", "context_gate",
        "gate_threshold", "batch_attention_in", "batch_vector_in", "sentence_numbers",
    )  # fmt: skip
    found = {key: getattr(train, key) for key in as_they_are} | {key: getattr(train, key, None) for key in of_some}
    return found | {
        "bpe_merges": prepare.get("bpe-merges") if "sentencepiece" not in prepare else None,
        "max_instance_tokens": prepare["max-instance-tokens"],
        "max_sentence_tokens": prepare.get("max-sentence-tokens", 1024),
        "max_sents": recipe.max_sentences,
        "prepared_from": recipe.prepared_from,
        "vocabulary_from": recipe.vocabulary_from,
        "encoder": tuple(getattr(train, f"encoder_{field}") for field in fields),
        "decoder": tuple(getattr(train, f"decoder_{field}") for field in fields),
        "attention": tuple(kinds) or None,
        "grouping": (train.instances, train.instance_tokens, train.context_sentences),
        "walk": tuple(walk.get(key) for key in ("instances", "instance-tokens", "context-sentences", "strategy")),
        "window": tuple(
            getattr(train, key, None) for key in ("window", "window_positions", "train_alignment", "decode_alignment")
        ),
        "by_sentence": getattr(train, "positions", None) == "sentence",
        "gates": (getattr(train, "gate_bias", None), getattr(train, "neutral_gates", False)),
        "marks_loss": getattr(train, "marks_loss", "on"),
        "trained_parameters": getattr(train, "trained_parameters", "all"),
        "doc_noise_epochs": train.doc_noise_epochs if train.doc_noise_mask else None,  # without it they mean nothing
        "lr": lr,
        "lr_pretrained": round(lr * train.lr_scale_pretrained, 12) if train.doc_double_lr else None,
        "warmup_init_lr": None if init < 0 else init,
        "total_num_update": updates and int(updates),  # fairseq's parser leaves it a text
        "devices": recipe.devices,
        "update_freq": update_freq,
        "pretrained_from": recipe.pretrained_from,
        "beam": generate["beam"],
        "lenpen": generate["lenpen"],
        "max_len": (generate["max-len-a"], generate["max-len-b"]),
        "instances": generate["batch-size"],
        "passes": (generate.get("first-pass"), generate.get("batch-sentences")),
        "averaged": recipe.averaged,
        "kept": tuple(map(recipe.options("train").get, KEPT)) if recipe.averaged else None,
    }


def stated(name: str) -> dict:
    """What a recipe should come to; each figure from one place."""
    if name in OURS:
        base, changed = OURS[name]
        return stated(base) | changed
    result: dict = {}
    for _, recipes, figures in FIGURES:
        if name in recipes:
            assert not result.keys() & figures.keys(), "said twice"
            result |= figures
    return result


def test_every_recipe_is_known_here():
    assert OF_PAPERS | OURS.keys() == set(recipe_names())
    assert len(set(recipe_names())) == len(recipe_names())


@pytest.mark.parametrize("name", sorted(OF_PAPERS | OURS.keys()))
def test_values(name: str):
    found, expected = values(load_recipe(name)), stated(name)
    assert found.keys() == expected.keys(), "every value is stated"
    assert {key: found[key] for key in found if found[key] != expected[key]} == {
        key: expected[key] for key in found if found[key] != expected[key]
    }


# Where a figure goes by another name in the recipes.
OPTIONS = {
    "instances": "batch-size", "max_len": "max-len-a", "grouping": "instances", "walk": "strategy",
    "averaged": "average-checkpoints",
}  # fmt: skip


def comment(name: str, option: str) -> str | None:
    """What the recipe, or the one it is based on, says beside the line that sets an option; None where none does."""
    lines = find_recipe(name).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(rf" *{option}:", line):  # a line without comment stands below the one whose comment it shares
            return next(text for text in lines[number::-1] if "#" in text).split("#", 1)[1]
    base = [line.split()[1] for line in lines if line.startswith("based-on:")]
    return comment(base[0], option) if base else None


@pytest.mark.parametrize("name", sorted(OF_PAPERS))
def test_recipes_say_which_source_they_follow(name: str):
    """Above all where paper, release and Liu et al. differ."""
    checked = 0
    for source, recipes, figures in FIGURES:
        for option in (OPTIONS.get(key, key.replace("_", "-")) for key in figures):
            if name in recipes and (text := comment(name, option)) is not None:
                assert not [part for part in source.split(", ") if part not in text], (option, source, text)
                checked += bool(source)
    assert checked > 15


@pytest.mark.skipif(not SHARED.is_dir(), reason="the paper (../shared/papers) is not here")
def test_the_beam_is_the_paper_s():
    """Where the paper gives a number, its section is named and not the authors' code."""
    text = (SHARED / "papers" / "g-transformer.md").read_text(encoding="utf-8")
    assert f"beam size of {stated('base')['beam']}" in text.split("## 4.3 ")[1].split("\n## ")[0]


def test_every_row_of_the_paper_has_its_recipe():
    assert recipes_of_rows() == ROWS
    for (table, row), name in ROWS.items():
        assert load_recipe(name).rows[table] == row
    ablation = load_recipe("table5_no_language")  # belongs to the table without being printed there
    assert (ablation.table, ablation.row) == ("5", None)
    assert (load_recipe("base").table, load_recipe("base").row) == ("2", "G-Transformer random initialized (ours)")
    assert load_recipe("cpu_small").rows == {}  # rows are not inherited


@pytest.mark.skipif(not SHARED.is_dir(), reason="the paper (../shared/papers) is not here")
def test_rows_are_as_printed():
    """Against the text of the paper: no row of these tables is missing, none is spelt otherwise."""
    text = (SHARED / "papers" / "g-transformer.md").read_text(encoding="utf-8")
    printed: dict[str, set[str]] = {}
    rows: list[str] = []
    for line in text.splitlines():
        if line.startswith("Method\t"):
            rows = []
        elif "\t" in line or line == "Fine-tuning on Pre-trained Model":
            rows.append(line.split("\t")[0].strip())
        elif match := re.match(r"Table (\d):", line):
            printed[match[1]] = {row.split(" (")[0] if re.search(r"\d{4}", row) else row for row in rows if row}
    for table in ("2", "3", "5", "6", "7"):
        ours = {row for key, row in ROWS if key == table}
        assert printed[table] - OTHERS.get(table, set()) == ours, table


@pytest.mark.skipif(not SHARED.is_dir(), reason="the paper (../shared/papers) is not here")
def test_rows_are_as_the_window_attention_paper_prints_them():
    """Every row of its tables is a recipe's, or one of another search, another w or another system."""
    text = (SHARED / "papers" / "window-attention.md").read_text(encoding="utf-8")
    printed: dict[str, set[str]] = {}
    rows: list[list[str]] = []
    for line in text.splitlines():
        cells = line.split("\t")
        if cells[0] == "Model":
            rows = []
        elif len(cells) > 1:
            above = rows[-1] if rows else cells  # an empty cell has what stands above it
            rows.append([cell.strip() or old for cell, old in zip(cells, above, strict=False)])
        elif (match := re.match(r"Table (\d):", line)) and match[1] in LABELS:
            printed[match[1]] = {", ".join(row[: LABELS[match[1]]]) for row in rows if row[0]}
    assert printed.keys() == LABELS.keys()
    for table, found in printed.items():
        ours = {row for key, row in ROWS if key == f"window-attention {table}"}
        assert ours and found == ours | VARIANTS.get(table, set()), table
        assert not ours & VARIANTS.get(table, set())


@pytest.mark.parametrize("name", sorted(LONG_CONTEXT))
def test_perplexity_chooses_the_checkpoint_where_the_paper_does(name: str):
    """Of Herold and Ney (2023), appendix A.2; with label smoothing the loss is another order."""
    train = training_options(load_recipe(name))
    assert train.best_checkpoint_metric == "nll_loss" and not train.maximize_best_checkpoint_metric
