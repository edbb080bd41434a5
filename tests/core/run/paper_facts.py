"""What the papers say of their trainings: source, the recipes that follow it, and options of fairseq-train.

Options of other stages have the stage before them. Numbers in brackets are parts of the paper that is named; the rest
of a recipe is the authors' code or our choice, as its comments say.
"""

from __future__ import annotations

# Bao et al. (2021), by how recipes are trained.
BASE_SIZE = {"base", "table5_no_language", "table5_no_translation", "table6_group", "table6_global", "section54_top1",
             "section54_top3"}  # fmt: skip
SCRATCH = BASE_SIZE | {"big", "large"}
NO_WORD_DROPOUT = {"sent_base", "doc_base", "table5_no_dropout", "table5_no_dropout_language"}
FINETUNED = {"doc_base_finetune", "table3_no_target", "table3_no_target_source"}
MBART = {"mbart", "doc_mbart", "sent_mbart"}
TRANSFORMERS = SCRATCH | NO_WORD_DROPOUT | FINETUNED
PLAIN = {"sent_base", "doc_base", "doc_mbart", "sent_mbart"}
# Herold and Ney (2023), Zhang et al. (2018), Wu et al. (2023).
DOCUMENTS = {"concatenation/documents", "lst/base", "window/base"}
LONG_CONTEXT = DOCUMENTS | {"concatenation/sentences", "concatenation/one", "concatenation/two"}
STEP_2 = {"document/base", "document/alone"}
DOCUMENT = STEP_2 | {"document/sentences"}
FLAT = {f"docflat/{gate}" for gate in "cdi"}
PSEUDO = FLAT | {"docflat/mbe", "docflat/abd", "docflat/doc2doc"}
STAGE_2 = PSEUDO | {"docflat/flat"}
DOCFLAT = STAGE_2 | {"docflat/sentences"}


def sides(layers: int, width: int, heads: int, names: tuple[str, ...] = ("encoder", "decoder")) -> dict[str, int]:
    """Layers, dimensions (feed-forward: four times as many) and heads."""
    sizes = {"layers": layers, "embed_dim": width, "ffn_embed_dim": 4 * width, "attention_heads": heads}
    return {f"{side}_{name}": value for side in names for name, value in sizes.items()}


def context(encoder: int, decoder: int, cross: int) -> dict[str, int]:
    """Top layers with combined attention."""
    return {"encoder_ctxlayers": encoder, "decoder_ctxlayers": decoder, "cross_ctxlayers": cross}


FACTS = [
    ("Bao [2]", TRANSFORMERS | MBART | {"bert"}, {"prepare max-instance-tokens": 512}),
    ("Bao [2]", TRANSFORMERS | {"bert"}, {"prepare bpe-merges": 30_000}),
    ("Bao [2]", BASE_SIZE | NO_WORD_DROPOUT | FINETUNED, sides(6, 512, 8)),
    ("Bao [2]", {"big"}, sides(6, 1024, 16)),
    ("Bao [2]", {"large"}, sides(12, 1024, 16)),
    ("Liu et al. (2020)", MBART, sides(12, 1024, 16)),
    ("Devlin et al. (2019)", {"bert"}, {**sides(12, 768, 12, ("encoder",)), "dropout": 0.1}),
    ("Bao [B.1]", PLAIN, {"doc_mode": "full"}),
    ("Bao [4.2]", {"base", "big", "large", "mbart", "bert", "doc_base_finetune"}, context(2, 2, 2)),
    ("Bao [5.1]", {"table3_no_target"}, context(2, 0, 2)),
    ("Bao [5.1]", {"table3_no_target_source", "table6_group"}, context(0, 0, 0)),
    ("Bao [5.4]", {"section54_top1"}, context(1, 1, 1)),
    ("Bao [5.4]", {"section54_top3"}, context(3, 3, 3)),
    ("Bao [B.2], [C.1]", TRANSFORMERS, {"dropout": 0.3, "label_smoothing": 0.1, "share_all_embeddings": True}),
    ("Liu et al. (2020)", MBART, {"dropout": 0.3, "attention_dropout": 0.1, "label_smoothing": 0.2, "adam_eps": 1e-6}),
    ("Bao [C.1]", SCRATCH, {"doc_noise_mask": 0.3}),
    ("Bao [C.1]", FINETUNED | {"bert"}, {"doc_noise_mask": 0.1}),
    ("Bao [C.1]", NO_WORD_DROPOUT | MBART, {"doc_noise_mask": 0.0}),
    ("Bao [B.2], [C.1]", TRANSFORMERS | {"bert"}, {
        "adam_betas": "(0.9, 0.98)", "lr": [5e-4], "lr_scheduler": "inverse_sqrt", "warmup_updates": 4000,
    }),
    ("Bao [C.1]", FINETUNED, {"lr_scale_pretrained": 0.2, "doc_double_lr": True, "load_partial": True}),
    ("Bao [C.1], Liu et al. (2020)", MBART, {
        "lr": [3e-5], "lr_scheduler": "polynomial_decay", "warmup_updates": 2500, "max_update": 40_000,
    }),
    ("Bao [4.3]", TRANSFORMERS | MBART | {"bert"}, {"generate beam": 5}),
    ("Herold and Ney [A.2], [3.1]", LONG_CONTEXT, {
        "prepare bpe-merges": 15_000, **sides(6, 512, 8), "share_all_embeddings": True, "dropout": 0.3,
        "label_smoothing": 0.2, "best_checkpoint_metric": "nll_loss", "patience": 10, "generate beam": 12,
        "generate lenpen": 1.0, "context_loss": "on", "load_partial": False,
    }),
    ("Herold and Ney [3.1]", DOCUMENTS, {"instances": "parts", "instance_tokens": 1000}),
    ("Herold and Ney [3.1]", {"concatenation/two"}, {"instances": "sliding", "context_sentences": 2}),
    ("Herold and Ney [4.3]", {"window/base"}, {
        "window": 20, "window_positions": "relative", "train_alignment": "linear", "decode_alignment": "sentence",
        "generate strategy": "sequential",
    }),
    ("Zhang [3.1], Vaswani et al. (2017)", DOCUMENT, {
        "prepare bpe-merges": 32_000, **sides(6, 512, 8), "dropout": 0.1, "label_smoothing": 0.1, "adam_eps": 1e-9,
        "adam_betas": "(0.9, 0.98)", "lr_scheduler": "inverse_sqrt", "max_tokens": 6000, "generate beam": 4,
        "generate lenpen": 0.6,
    }),
    ("Zhang [3.1]", {"document/sentences"}, {"lr": [7e-4], "warmup_updates": 4000}),
    ("Zhang [2.1], [3.3], [3.8], [3.9]", STEP_2, {
        "instances": "current", "context_sentences": 2, "context_layers": 1, "context_in": "both",
        "context_join": "gate",
    }),
    ("Zhang [2.4]", {"document/base"}, {"load_partial": True, "freeze_sentence_parameters": True}),
    ("Wu [4.1], [B]", DOCFLAT, {
        "prepare bpe-merges": 32_000, **sides(6, 512, 8), "dropout": 0.3, "adam_betas": "(0.9, 0.98)",
        "lr_scheduler": "inverse_sqrt", "warmup_updates": 4000, "patience": 10, "max_tokens": 4096, "update_freq": [8],
        "generate beam": 5,
    }),
    ("Wu [B]", {"docflat/sentences"}, {"lr": [5e-4], "doc_noise_mask": 0.0}),
    ("Wu [B]", STAGE_2, {"lr": [2e-4], "doc_noise_mask": 0.1, "load_partial": True, "train average-checkpoints": 5}),
    ("Wu [2], [3.4], [4.1]", PSEUDO, {
        "instances": "sliding", "context_sentences": 3, "context_loss": "off", "batch_order": "document",
        "generate first-pass": "start", "generate batch-sentences": 16,
    }),
    ("Wu [3.1], [3.3]", FLAT, {"batch_attention_in": "both", "gate_threshold": 0.5, "sentence_numbers": "on"}),
    ("Wu [3.3]", {"docflat/c"}, {"context_gate": "continuous"}),
    ("Wu [3.3]", {"docflat/d"}, {"context_gate": "discrete"}),
    ("Wu [4.3]", {"docflat/i"}, {"context_gate": "identity"}),
    ("Wu [4.1]", {"docflat/abd"}, {"batch_attention_in": "encoder"}),
    ("Wu [1]", {"docflat/mbe"}, {"batch_vector_in": "both"}),
]  # fmt: skip

# Recipes that the papers (or we) vary in nothing but these options of section train and task.
VARIATIONS = {
    "doc_base": ("base", {"doc-mode", "doc-noise-mask", "doc-noise-epochs"}),
    "sent_base": ("doc_base", {"instances", "context-sentences"}),
    "doc_base_finetune": (
        "base", {"load-partial", "doc-double-lr", "lr-scale-pretrained", "doc-noise-mask", "doc-noise-epochs"}
    ),
    "doc_mbart": ("mbart", {"doc-mode"}),
    "sent_mbart": ("doc_mbart", {"instances", "context-sentences"}),
    "table6_global": ("base", {"context-attention"}),
    "lst/base": ("concatenation/documents", {"arch"}),
    "window/base": (
        "concatenation/documents", {"arch", "window", "window-positions", "train-alignment", "decode-alignment"}
    ),
    "docflat/abd": ("docflat/doc2doc", {"arch", "batch-attention-in"}),
    "cpu_small_sent": ("cpu_small_doc", {"instances", "context-sentences"}),
}  # fmt: skip
