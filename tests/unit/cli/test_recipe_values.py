"""Every recipe's numbers against those of its sources: the paper, the authors' release, Liu et al. (2020).

FIGURES states each figure once, with its source and the recipes that it is meant for; the recipes' comments must name
the same source. A new recipe joins these sets, or stands in OURS with what differs from another one.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from gtransformer.cli.recipe import (
    Recipe,
    find_recipe,
    load_recipe,
    recipe_names,
    recipes_of_rows,
    to_arguments,
)
from gtransformer.models.gtransformer.layers import COMBINED, GLOBAL, GROUP, attention_kinds
from tests.support import SHARED

LETTERS = {GROUP: "g", COMBINED: "c", GLOBAL: "d"}  # d: over the whole document

# The recipes of the paper by how they are trained.
BASE_SIZE = {"base", "table5_no_language", "table5_no_translation", "table6_group", "table6_global", "section54_top1",
             "section54_top3"}  # fmt: skip
SCRATCH = BASE_SIZE | {"big", "large"}
NO_WORD_DROPOUT = {"sent_base", "doc_base", "table5_no_dropout", "table5_no_dropout_language"}
FINETUNED = {"doc_base_finetune", "table3_no_target", "table3_no_target_source"}
BERT = {"bert"}
MBART = {"mbart", "doc_mbart", "sent_mbart"}
OTHERS_THAN_MBART = SCRATCH | NO_WORD_DROPOUT | FINETUNED | BERT
PAPER = OTHERS_THAN_MBART | MBART
SENTENCES = {"sent_base", "sent_mbart"}
PLAIN = {"sent_base", "doc_base", "doc_mbart", "sent_mbart"}
PREPARES = {"base", "bert", "mbart"} | SENTENCES
DOCUMENT, CONTEXT, NO_CONTEXT = "dddddd", "ggggcc", "gggggg"  # six layers: top 2 of them combined
DEEP = "g" * 10 + "cc"
SMALL_SIDE, LARGE_SIDE = (6, 512, 2048, 8), (12, 1024, 4096, 16)

# Every figure once: source, recipes that it is meant for, and what it says. Numbers in brackets are parts of Bao et al.
# (2021); [release]: the authors' code and scripts; [mBART]: Liu et al. (2020), section 4.1. "": fairseq's default, or
# what follows from another figure.
FIGURES = [
    # Corpus.
    ("[2]", PAPER, {"max_instance_tokens": 512}),
    ("[2]", OTHERS_THAN_MBART, {"bpe_merges": 30_000}),
    ("", MBART, {"bpe_merges": None}),  # mBART's own pieces
    ("", PAPER - MBART - BERT, {"max_sentence_tokens": 1024}),
    ("", MBART | BERT, {"max_sentence_tokens": 510}),  # BERT has 512 positions, mBART 1024
    ("", SENTENCES, {"max_sents": 1}),
    ("", PAPER - SENTENCES, {"max_sents": None}),
    ("", PREPARES, {"prepared_from": None}),
    ("", OTHERS_THAN_MBART - PREPARES, {"prepared_from": "base"}),
    ("", {"doc_mbart"}, {"prepared_from": "mbart"}),
    ("", {"sent_base"}, {"vocabulary_from": "base"}),
    ("", PAPER - {"sent_base"}, {"vocabulary_from": None}),
    # Model: layers, dimensions, feed-forward dimensions, heads.
    ("[2]", BASE_SIZE | NO_WORD_DROPOUT | FINETUNED, {
        "arch": "gtransformer_base", "encoder": SMALL_SIDE, "decoder": SMALL_SIDE,
    }),
    ("[2]", {"big"}, {"arch": "gtransformer_big", "encoder": (6, 1024, 4096, 16), "decoder": (6, 1024, 4096, 16)}),
    ("[2]", {"large"}, {"arch": "gtransformer_large", "encoder": LARGE_SIDE, "decoder": LARGE_SIDE}),
    ("", MBART, {"arch": "gtransformer_mbart_large", "encoder": LARGE_SIDE, "decoder": LARGE_SIDE}),
    ("Devlin et al. 2019", BERT, {"arch": "gtransformer_bert", "encoder": (12, 768, 3072, 12)}),
    ("", BERT, {"decoder": (6, 768, 3072, 12)}),  # as many layers as [2], as wide as the encoder
    ("[B.2]", OTHERS_THAN_MBART - BERT, {"share_all_embeddings": True}),
    ("", MBART | BERT, {"share_all_embeddings": False}),  # mBART's architecture sees to it; BERT has two dictionaries
    ("", PAPER - PLAIN, {"doc_mode": "partial"}),
    ("B.1", PLAIN, {"doc_mode": "full"}),
    ("[release]", PAPER, {"decoder_start": "bos"}),
    # Where each layer of encoder, decoder and cross-attention looks [4.2], [5.4].
    ("", {"base", "big", "table5_no_dropout", "doc_base_finetune"}, {"attention": (CONTEXT, CONTEXT, CONTEXT)}),
    ("", {"large", "mbart"}, {"attention": (DEEP, DEEP, DEEP)}),
    ("", {"bert"}, {"attention": (DEEP, CONTEXT, CONTEXT)}),
    ("", {"doc_base", "sent_base"}, {"attention": (DOCUMENT, DOCUMENT, DOCUMENT)}),
    ("", {"doc_mbart", "sent_mbart"}, {"attention": ("d" * 12,) * 3}),
    ("", {"table3_no_target"}, {"attention": (CONTEXT, NO_CONTEXT, CONTEXT)}),
    ("", {"table3_no_target_source", "table6_group"}, {"attention": (NO_CONTEXT,) * 3}),
    ("", {"table5_no_language", "table5_no_dropout_language"}, {"attention": (DOCUMENT, DOCUMENT, CONTEXT)}),
    ("", {"table5_no_translation"}, {"attention": (CONTEXT, CONTEXT, DOCUMENT)}),
    ("", {"table6_global"}, {"attention": ("ggggdd",) * 3}),
    ("", {"section54_top1"}, {"attention": ("gggggc",) * 3}),
    ("", {"section54_top3"}, {"attention": ("gggccc",) * 3}),
    # Regularisation.
    ("[B.2], [C.1]", PAPER - MBART - BERT, {"dropout": 0.3}),
    ("[mBART], [release]", MBART, {"dropout": 0.3, "attention_dropout": 0.1, "label_smoothing": 0.2}),
    ("Devlin et al. 2019", BERT, {"dropout": 0.1, "attention_dropout": 0.1}),
    ("[release]", PAPER - MBART - BERT, {"attention_dropout": 0.0}),
    ("[B.2], [C.1]", OTHERS_THAN_MBART, {"label_smoothing": 0.1}),
    # Word dropout on source and target input, and its epochs as --doc-noise-epochs counts them.
    ("[C.1]", SCRATCH, {"doc_noise_mask": 0.3}),
    ("[release]", SCRATCH, {"doc_noise_epochs": 30}),
    ("[C.1]", FINETUNED | BERT, {"doc_noise_mask": 0.1}),
    ("[release]", FINETUNED | BERT, {"doc_noise_epochs": 40}),
    ("C.1", NO_WORD_DROPOUT | MBART, {"doc_noise_mask": 0.0}),
    ("", NO_WORD_DROPOUT | MBART, {"doc_noise_epochs": None}),
    # Optimisation.
    ("[ours]", PAPER, {"criterion": "fused_label_smoothed_cross_entropy"}),  # label_smoothed_cross_entropy, but faster
    ("[C.1]", PAPER, {"optimizer": "adam"}),
    ("[B.2]", OTHERS_THAN_MBART, {"adam_betas": "(0.9, 0.98)"}),
    ("[mBART]", MBART, {"adam_betas": "(0.9, 0.98)"}),
    ("", OTHERS_THAN_MBART, {"adam_eps": 1e-8}),
    ("[mBART], [release]", MBART, {"adam_eps": 1e-6}),
    ("[C.1]", OTHERS_THAN_MBART, {"lr": 5e-4}),
    ("[C.1], [mBART], [release]", MBART, {"lr": 3e-5}),
    ("", SCRATCH | NO_WORD_DROPOUT | MBART, {"lr_pretrained": None}),  # one rate for all
    ("", FINETUNED, {"lr_pretrained": 1e-4}),  # [C.1] of what the sentence Transformer has
    ("", BERT, {"lr_pretrained": 5e-5}),  # Devlin et al. (2019), appendix A.3
    ("[B.2]", OTHERS_THAN_MBART, {"lr_scheduler": "inverse_sqrt"}),
    ("[mBART], [release]", MBART, {"lr_scheduler": "polynomial_decay"}),
    ("[C.1]", OTHERS_THAN_MBART, {"warmup_updates": 4000}),
    ("[C.1], [mBART], [release]", MBART, {"warmup_updates": 2500}),
    ("[ours]", OTHERS_THAN_MBART, {"warmup_init_lr": 1e-7}),
    ("", MBART, {"warmup_init_lr": None}),
    ("", OTHERS_THAN_MBART, {"total_num_update": None, "max_update": 0}),  # [B.2] stops early instead
    ("[mBART]", MBART, {"total_num_update": 40_000, "max_update": 40_000}),
    ("[release]", OTHERS_THAN_MBART, {"patience": 10}),
    ("[release]", MBART, {"patience": 5}),
    # Size of an update.
    ("[B.2]", PAPER, {"devices": 4}),
    ("[release]", OTHERS_THAN_MBART, {"max_tokens": 4096, "update_freq": 1}),
    ("[release]", MBART, {"max_tokens": 2048, "update_freq": 2}),
    # Where it starts.
    ("", FINETUNED, {"pretrained_from": "sent_base"}),  # [5.1]
    ("", PAPER - FINETUNED, {"pretrained_from": None}),
    ("[C.1]", FINETUNED | MBART, {"load_partial": True}),
    ("", SCRATCH | NO_WORD_DROPOUT | BERT, {"load_partial": False}),
    # Search.
    ("[4.3]", PAPER, {"beam": 5}),
    ("fairseq's default", PAPER, {"lenpen": 1.0}),
    ("[release]", PAPER, {"max_len": (1.2, 10)}),  # of a sentence
    ("[release]", OTHERS_THAN_MBART, {"instances": 16}),  # in a batch of generation
    ("[release]", MBART, {"instances": 32}),
]  # fmt: skip

# What is none of the paper's, for CPUs: the recipe whose values it has, and all that differs.
OURS = {
    "cpu_small": ("base", {
        "bpe_merges": 8000, "arch": "gtransformer_small", "encoder": (3, 256, 1024, 4), "decoder": (3, 256, 1024, 4),
        "attention": ("gcc",) * 3, "dropout": 0.1, "doc_noise_mask": 0.1, "lr": 1e-3, "warmup_updates": 500,
        "devices": 1,
    }),
    "cpu_small_doc": ("cpu_small", {
        "attention": ("ddd",) * 3, "doc_mode": "full", "doc_noise_mask": 0.0, "doc_noise_epochs": None,
        "prepared_from": "cpu_small",
    }),
    "cpu_small_sent": ("cpu_small_doc", {"max_sents": 1, "prepared_from": None, "vocabulary_from": "cpu_small"}),
    "cpu_small_finetune": ("cpu_small", {
        "prepared_from": "cpu_small", "pretrained_from": "cpu_small_sent", "load_partial": True, "lr_pretrained": 2e-4,
        "doc_noise_epochs": 40,  # as the paper's are
    }),
    "cpu_tiny": ("cpu_small", {
        "bpe_merges": 300, "arch": "gtransformer_tiny", "encoder": (2, 128, 512, 4), "decoder": (2, 128, 512, 4),
        "attention": ("gc",) * 3, "warmup_updates": 4, "max_tokens": 1500, "max_update": 10, "beam": 2,
    }),
    "demo": ("base", {
        "bpe_merges": 4000, "arch": "gtransformer_tiny", "encoder": (3, 128, 512, 4), "decoder": (3, 128, 512, 4),
        "attention": ("gcc",) * 3, "dropout": 0.1, "doc_noise_mask": 0.0, "doc_noise_epochs": None, "lr": 1e-3,
        "lr_scheduler": "polynomial_decay", "warmup_updates": 200, "warmup_init_lr": None, "total_num_update": 800,
        "max_update": 800, "patience": -1, "devices": 1, "max_tokens": 3000,
    }),
    "demo_full": ("demo", {"prepared_from": "demo", "attention": ("ddd",) * 3, "doc_mode": "full"}),
}  # fmt: skip

# (table or section, row as printed) -> recipe; other systems' rows have none.
ROWS = {
    ("2", "Transformer on sent (baseline)"): "sent_base",
    ("2", "Transformer on doc (baseline)"): "doc_base",
    ("2", "G-Transformer random initialized (ours)"): "base",
    ("2", "G-Transformer fine-tuned on sent Transformer (ours)"): "doc_base_finetune",
    ("2", "G-Transformer+BERT (ours)"): "bert",
    ("2", "Transformer on sent fine-tuned on BART (baseline)"): "sent_mbart",
    ("2", "Transformer on doc fine-tuned on BART (baseline)"): "doc_mbart",
    ("2", "G-Transformer fine-tuned on BART (ours)"): "mbart",
    ("3", "G-Transformer (fnt.)"): "doc_base_finetune",
    ("3", "- target-side context"): "table3_no_target",
    ("3", "- source-side context"): "table3_no_target_source",
    ("5", "G-Transformer (rnd.)"): "base",
    ("5", "- word-dropout"): "table5_no_dropout",
    ("5", "- language locality"): "table5_no_dropout_language",
    ("5", "- translation locality"): "doc_base",
    ("6", "Combined attention"): "base",
    ("6", "Only group attention"): "table6_group",
    ("6", "Only global attention"): "table6_global",
    ("7", "G-Transformer random initialized (Base)"): "base",
    ("7", "G-Transformer random initialized (Big)"): "big",
    ("7", "G-Transformer random initialized (Large)"): "large",
    ("section 5.4", "K = 1"): "section54_top1",
    ("section 5.4", "K = 2"): "base",
    ("section 5.4", "K = 3"): "section54_top3",
}
# By table: the number of rows that are other people's systems, or only a heading.
OTHERS = {"2": {"SENTNMT", "HAN", "SAN", "Hybrid Context", "Flat-Transformer", "Fine-tuning on Pre-trained Model",
                "Flat-Transformer+BERT"}, "6": {"G-Transformer (rnd.)"}}  # fmt: skip


def training_options(recipe: Recipe) -> SimpleNamespace:
    """All options of fairseq-train, sizes of the architecture and defaults filled in by its own configuration."""
    line = ["data", *to_arguments(recipe.options("task", "train"))]
    parsed = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), line)
    cfg, found = convert_namespace_to_omegaconf(parsed), {}
    for name in ("model", "task", "criterion", "optimizer", "lr_scheduler", "dataset", "checkpoint", "optimization"):
        section = dict(cfg[name])
        found |= {"arch" if name == "model" else name: section.pop("_name", None), **section}
    return SimpleNamespace(**found)


def values(recipe: Recipe) -> dict:
    """What a recipe comes to, under the names of FIGURES."""
    train = training_options(recipe)
    prepare, generate = recipe.options("prepare"), recipe.options("generate")
    fields = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    kinds = {part: attention_kinds(train, part) for part in ("encoder", "decoder", "cross")}
    (lr,), (update_freq,) = train.lr, train.update_freq
    init = getattr(train, "warmup_init_lr", -1)
    as_they_are = (
        "arch", "doc_mode", "decoder_start", "share_all_embeddings", "dropout", "attention_dropout", "doc_noise_mask",
        "label_smoothing", "criterion", "optimizer", "adam_betas", "adam_eps", "lr_scheduler", "warmup_updates",
        "max_update", "patience", "max_tokens", "load_partial",
    )  # fmt: skip
    return {key: getattr(train, key) for key in as_they_are} | {
        "bpe_merges": prepare.get("bpe-merges") if "sentencepiece" not in prepare else None,
        "max_instance_tokens": prepare["max-instance-tokens"],
        "max_sentence_tokens": prepare.get("max-sentence-tokens", 1024),
        "max_sents": prepare.get("max-sents"),
        "prepared_from": recipe.prepared_from,
        "vocabulary_from": recipe.vocabulary_from,
        "encoder": tuple(getattr(train, f"encoder_{field}") for field in fields),
        "decoder": tuple(getattr(train, f"decoder_{field}") for field in fields),
        "attention": tuple("".join(LETTERS[kind] for kind in kinds[part]) for part in ("encoder", "decoder", "cross")),
        "doc_noise_epochs": train.doc_noise_epochs if train.doc_noise_mask else None,  # without it they mean nothing
        "lr": lr,
        "lr_pretrained": round(lr * train.lr_scale_pretrained, 12) if train.doc_double_lr else None,
        "warmup_init_lr": None if init < 0 else init,
        "total_num_update": getattr(train, "total_num_update", None),
        "devices": recipe.devices,
        "update_freq": update_freq,
        "pretrained_from": recipe.pretrained_from,
        "beam": generate["beam"],
        "lenpen": generate["lenpen"],
        "max_len": (generate["max-len-a"], generate["max-len-b"]),
        "instances": generate["batch-size"],
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
    assert PAPER | OURS.keys() == set(recipe_names())
    assert len(set(recipe_names())) == len(recipe_names())


@pytest.mark.parametrize("name", sorted(PAPER | OURS.keys()))
def test_values(name: str):
    found, expected = values(load_recipe(name)), stated(name)
    assert found.keys() == expected.keys(), "every value is stated"
    assert {key: found[key] for key in found if found[key] != expected[key]} == {
        key: expected[key] for key in found if found[key] != expected[key]
    }


OPTIONS = {"instances": "batch-size", "max_len": "max-len-a"}  # where a figure goes by another name in the recipes


def comment(name: str, option: str) -> str | None:
    """What the recipe, or the one it is based on, says beside the line that sets an option; None where none does."""
    lines = find_recipe(name).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(rf" *{option}:", line):  # a line without comment stands below the one whose comment it shares
            return next(text for text in lines[number::-1] if "#" in text).split("#", 1)[1]
    base = [line.split()[1] for line in lines if line.startswith("based-on:")]
    return comment(base[0], option) if base else None


@pytest.mark.parametrize("name", sorted(PAPER))
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
