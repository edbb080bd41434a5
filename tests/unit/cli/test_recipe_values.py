"""Every recipe's numbers against the paper's, written down here once more, each with its source.

A new recipe needs an entry in RECIPES: an existing one with what differs. Numbers in brackets are sections and
appendices of Bao et al. (2021); [release] is the authors' code, [mBART] Liu et al. (2020), section 4.1; [ours] is
neither.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from gtransformer.cli.recipe import (
    Recipe,
    config_directory,
    load_recipe,
    recipe_names,
    recipes_of_rows,
    to_arguments,
)
from gtransformer.models.gtransformer.reach import COMBINED, GLOBAL, GROUP, attention_kinds
from tests.support import SHARED

LETTERS = {GROUP: "g", COMBINED: "c", GLOBAL: "d"}  # d: over the whole document
DOCUMENT, CONTEXT = "dddddd", "ggggcc"

BASE = {
    # Corpus.
    "bpe_merges": 30_000,  # [2]
    "max_instance_tokens": 512,  # [2]
    "max_sentence_tokens": 1024,  # [ours] the default
    "max_sents": None,
    "prepared_from": None,
    "vocabulary_from": None,
    # Model: layers, dimensions, feed-forward dimensions, heads.
    "arch": "gtransformer_base",
    "encoder": (6, 512, 2048, 8),  # [2]
    "decoder": (6, 512, 2048, 8),  # [2]
    "attention": (CONTEXT, CONTEXT, CONTEXT),  # [4.2], [5.4]: the top 2 layers; encoder, decoder, cross-attention
    "doc_mode": "partial",  # [4]
    "share_all_embeddings": True,  # [B.2]
    # Regularisation.
    "dropout": 0.3,  # [B.2], [C.1]
    "attention_dropout": 0.0,  # [release]
    "doc_noise_mask": 0.3,  # [C.1]
    "doc_noise_epochs": 30,  # [release]
    "label_smoothing": 0.1,  # [B.2], [C.1]
    # Optimisation.
    "criterion": "fused_label_smoothed_cross_entropy",  # [ours] the loss of label_smoothed_cross_entropy
    "optimizer": "adam",  # [B.2], [C.1]
    "adam_betas": "(0.9, 0.98)",  # [B.2]
    "adam_eps": 1e-8,  # [release] fairseq's default
    "lr": 5e-4,  # [B.2], [C.1]
    "lr_pretrained": None,  # one rate for all
    "lr_scheduler": "inverse_sqrt",  # [B.2]
    "warmup_updates": 4000,  # [B.2], [C.1]
    "warmup_init_lr": 1e-7,  # [ours]
    "total_num_update": None,
    "max_update": 0,  # no limit: [B.2] stops early instead
    "patience": 10,  # [release]
    # Size of an update.
    "devices": 4,  # [B.2]
    "max_tokens": 4096,  # [release]
    "update_freq": 1,  # [release]
    # Where it starts.
    "pretrained_from": None,
    "load_partial": False,
    # Search.
    "beam": 5,  # [4.3]
    "lenpen": 1.0,  # fairseq's default
    "max_len": (1.2, 10),  # of a sentence [release]
}
PREPARED = {"prepared_from": "base"}  # [ours] one preparation for all that share it
PLAIN = {  # [B.1]; word dropout is the G-Transformer's alone [C.1], fairseq's default of the task for the epochs
    "attention": (DOCUMENT, DOCUMENT, DOCUMENT), "doc_mode": "full", "doc_noise_mask": 0.0,
}  # fmt: skip
SENTENCES = {"max_sents": 1, "prepared_from": None}
NO_CONTEXT = "gggggg"

DOC_BASE = BASE | PREPARED | PLAIN
FINETUNE = BASE | PREPARED | {
    "lr_pretrained": 1e-4,  # [C.1]; 5e-4 for global attention and gates
    "doc_noise_mask": 0.1,  # [C.1]
    "pretrained_from": "sent_base",  # [5.1]
    "load_partial": True,  # [C.1]
}  # fmt: skip
LARGE_SIDE = (12, 1024, 4096, 16)  # [2] "Large Model", mBART25's as well
MBART = BASE | {
    "bpe_merges": None,  # mBART's own pieces
    "max_sentence_tokens": 510,  # [ours] mBART has 1024 positions
    "arch": "gtransformer_mbart_large",
    "encoder": LARGE_SIDE,
    "decoder": LARGE_SIDE,
    "attention": ("g" * 10 + "cc",) * 3,  # [4.2]
    "share_all_embeddings": False,  # the architecture sees to it
    "attention_dropout": 0.1,  # [mBART]
    "doc_noise_mask": 0.0,  # [C.1] it made fine-tuning from mBART worse
    "label_smoothing": 0.2,  # [mBART]
    "adam_eps": 1e-6,  # [mBART]
    "lr": 3e-5,  # [C.1]
    "lr_scheduler": "polynomial_decay",  # [mBART]
    "warmup_updates": 2500,  # [C.1]
    "warmup_init_lr": None,
    "total_num_update": 40_000,  # [mBART]
    "max_update": 40_000,  # [mBART]
    "max_tokens": 1024,  # [mBART]
    "update_freq": 2,  # [mBART]
    "load_partial": True,  # [C.1]
}  # fmt: skip
MBART_DOCUMENT = MBART | {"prepared_from": "mbart", "doc_mode": "full", "attention": ("d" * 12,) * 3}
NO_WORD_DROPOUT = BASE | PREPARED | {"doc_noise_mask": 0.0}

CPU_SMALL = BASE | {  # [ours], all that differs
    "bpe_merges": 8000, "arch": "gtransformer_small", "encoder": (3, 256, 1024, 4), "decoder": (3, 256, 1024, 4),
    "attention": ("gcc",) * 3, "dropout": 0.1, "doc_noise_mask": 0.1, "lr": 1e-3, "warmup_updates": 500, "devices": 1,
}  # fmt: skip
DEMO = BASE | {  # [ours], all that differs
    "bpe_merges": 4000, "arch": "gtransformer_tiny", "encoder": (3, 128, 512, 4), "decoder": (3, 128, 512, 4),
    "attention": ("gcc",) * 3, "dropout": 0.1, "doc_noise_mask": 0.0, "lr": 1e-3, "lr_scheduler": "polynomial_decay",
    "warmup_updates": 200, "warmup_init_lr": None, "total_num_update": 650, "max_update": 650, "patience": -1,
    "devices": 1, "max_tokens": 3000,
}  # fmt: skip

RECIPES = {
    # Table 2.
    "sent_base": DOC_BASE | SENTENCES | {"vocabulary_from": "base"},  # [B]
    "doc_base": DOC_BASE,  # [B]
    "base": BASE,
    "doc_base_finetune": FINETUNE,
    "bert": BASE | {
        "max_sentence_tokens": 510,  # [ours] BERT has 512 positions
        "arch": "gtransformer_bert",
        "encoder": (12, 768, 3072, 12),  # BERT base, Devlin et al. (2019), section 3
        "decoder": (6, 768, 3072, 12),  # [ours] as many layers as [2], as wide as the encoder
        "attention": ("g" * 10 + "cc", CONTEXT, CONTEXT),  # [4.2]
        "share_all_embeddings": False,  # two dictionaries
        "dropout": 0.1,  # Devlin et al. (2019), appendix A.2 [ours]
        "attention_dropout": 0.1,  # the same
        "lr_pretrained": 5e-5,  # Devlin et al. (2019), appendix A.3 [ours]
        "doc_noise_mask": 0.1,  # [C.1], as for the sentence Transformer [ours]
    },
    "sent_mbart": MBART_DOCUMENT | SENTENCES,
    "doc_mbart": MBART_DOCUMENT,
    "mbart": MBART,
    # Table 3, from the fine-tuned model: self-attention of the decoder, then encoder and cross-attention [5.4].
    "table3_no_target": FINETUNE | {"attention": (CONTEXT, NO_CONTEXT, CONTEXT)},
    "table3_no_target_source": FINETUNE | {"attention": (NO_CONTEXT,) * 3},
    # Table 5 [5.4]; its last step is doc_base.
    "table5_no_dropout": NO_WORD_DROPOUT,
    "table5_no_dropout_language": NO_WORD_DROPOUT | {"attention": (DOCUMENT, DOCUMENT, CONTEXT)},
    "table5_no_language": BASE | PREPARED | {"attention": (DOCUMENT, DOCUMENT, CONTEXT)},
    "table5_no_translation": BASE | PREPARED | {"attention": (CONTEXT, CONTEXT, DOCUMENT)},
    # Table 6 and the number K of combined layers [5.4].
    "table6_group": BASE | PREPARED | {"attention": (NO_CONTEXT,) * 3},
    "table6_global": BASE | PREPARED | {"attention": ("ggggdd",) * 3},
    "section54_top1": BASE | PREPARED | {"attention": ("gggggc",) * 3},
    "section54_top3": BASE | PREPARED | {"attention": ("gggccc",) * 3},
    # Table 7 [2], [C.2].
    "big": BASE | PREPARED | {
        "arch": "gtransformer_big", "encoder": (6, 1024, 4096, 16), "decoder": (6, 1024, 4096, 16),
    },
    "large": BASE | PREPARED | {
        "arch": "gtransformer_large", "encoder": LARGE_SIDE, "decoder": LARGE_SIDE,
        "attention": ("g" * 10 + "cc",) * 3,
    },
    # None of the paper's: sizes and budgets for CPUs [ours].
    "cpu_small": CPU_SMALL,
    "cpu_small_doc": CPU_SMALL | PLAIN | {"attention": ("ddd",) * 3, "prepared_from": "cpu_small"},
    "cpu_small_sent": CPU_SMALL | PLAIN | SENTENCES | {"attention": ("ddd",) * 3, "vocabulary_from": "cpu_small"},
    "cpu_small_finetune": CPU_SMALL | {
        "prepared_from": "cpu_small", "pretrained_from": "cpu_small_sent", "load_partial": True, "lr_pretrained": 2e-4,
    },
    "cpu_tiny": CPU_SMALL | {
        "bpe_merges": 300, "arch": "gtransformer_tiny", "encoder": (2, 128, 512, 4), "decoder": (2, 128, 512, 4),
        "attention": ("gc",) * 3, "warmup_updates": 4, "max_tokens": 1500, "max_update": 10, "beam": 2,
    },
    "demo": DEMO,
    "demo_full": DEMO | {"prepared_from": "demo", "attention": ("ddd",) * 3, "doc_mode": "full"},
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
    """What a recipe comes to, under the names of BASE."""
    train = training_options(recipe)
    prepare, generate = recipe.options("prepare"), recipe.options("generate")
    fields = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    kinds = {part: attention_kinds(train, part) for part in ("encoder", "decoder", "cross")}
    (lr,), (update_freq,) = train.lr, train.update_freq
    found = {key: getattr(train, key) for key in BASE.keys() & vars(train).keys()}
    init = getattr(train, "warmup_init_lr", -1)
    return found | {
        "bpe_merges": prepare.get("bpe-merges") if "sentencepiece" not in prepare else None,
        "max_instance_tokens": prepare["max-instance-tokens"],
        "max_sentence_tokens": prepare.get("max-sentence-tokens", 1024),
        "max_sents": prepare.get("max-sents"),
        "prepared_from": recipe.prepared_from,
        "vocabulary_from": recipe.vocabulary_from,
        "encoder": tuple(getattr(train, f"encoder_{field}") for field in fields),
        "decoder": tuple(getattr(train, f"decoder_{field}") for field in fields),
        "attention": tuple("".join(LETTERS[kind] for kind in kinds[part]) for part in ("encoder", "decoder", "cross")),
        "lr": lr,
        "lr_pretrained": pytest.approx(lr * train.lr_scale_pretrained) if train.doc_double_lr else None,
        "warmup_init_lr": None if init < 0 else init,
        "total_num_update": getattr(train, "total_num_update", None),
        "devices": recipe.devices,
        "update_freq": update_freq,
        "pretrained_from": recipe.pretrained_from,
        "beam": generate["beam"],
        "lenpen": generate["lenpen"],
        "max_len": (generate["max-len-a"], generate["max-len-b"]),
    }


def test_every_recipe_is_in_the_table():
    assert RECIPES.keys() == set(recipe_names())
    assert len(set(recipe_names())) == len(recipe_names())


@pytest.mark.parametrize("name", RECIPES)
def test_values(name: str):
    found, expected = values(load_recipe(name)), RECIPES[name]
    assert found.keys() == expected.keys()
    assert {key: found[key] for key in found if found[key] != expected[key]} == {
        key: expected[key] for key in found if found[key] != expected[key]
    }


@pytest.mark.skipif(not SHARED.is_dir(), reason="the paper (../shared/papers) is not here")
def test_the_beam_is_the_paper_s():
    """Where the paper gives a number, its section is named and not the authors' code."""
    text = (SHARED / "papers" / "g-transformer.md").read_text(encoding="utf-8")
    assert f"beam size of {BASE['beam']}" in text.split("## 4.3 ")[1].split("\n## ")[0]
    lines = (config_directory() / "base.yaml").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("  beam:")]
    assert line.endswith("# [4.3]")


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
