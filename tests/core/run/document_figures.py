"""What the recipes of the Document Transformer and the Flat-Transformer should come to, as ``recipe_figures`` has them.

Numbers in brackets are parts of Zhang et al. (2018); [Vaswani]: Vaswani et al. (2017); [code]: the public code of the
former; [release]: that of Bao et al. (2021).
"""

from __future__ import annotations

STEP_2 = {"document/base", "document/alone"}
CURRENT = STEP_2 | {"flat/base"}
RECIPES = CURRENT | {"document/sentences"}
BASE = (6, 512, 2048, 8)

FIGURES = [
    # Corpus.
    ("[3.1]", RECIPES, {"bpe_merges": 32_000}),
    ("", RECIPES, {"max_sentence_tokens": 1024}),
    ("[code]", RECIPES, {"max_pair_tokens": 255}),
    ("[ours]", RECIPES, {"max_instance_tokens": 512}),
    ("", {"document/sentences"}, {"prepared_from": None}),
    ("", CURRENT, {"prepared_from": "document/sentences"}),
    ("", RECIPES, {"vocabulary_from": None}),
    # Which sentences stand together: a sentence, and two of the source before it.
    ("[2.4]", {"document/sentences"}, {
        "grouping": ("disjoint", None, 0), "walk": ("disjoint", None, 0, "full"), "max_sents": 1,
    }),
    ("[2.1]", STEP_2, {
        "grouping": ("current", None, 2), "walk": ("current", None, 2, "full"), "max_sents": 3,
    }),
    ("", {"flat/base"}, {"grouping": ("current", None, 2), "walk": ("current", None, 2, "full"), "max_sents": 3}),
    ("", RECIPES, {"context_loss": "on", "sentence_rule": "auto"}),
    # Model.
    ("[3.1]", {"document/sentences"}, {"arch": "doc_transformer_base"}),
    ("[3.1]", STEP_2, {"arch": "document_transformer_base"}),
    ("", {"flat/base"}, {"arch": "flat_transformer_base"}),
    ("", RECIPES, {"encoder": BASE, "decoder": BASE}),
    ("[ours]", RECIPES, {"share_all_embeddings": True}),
    ("[3.3]", STEP_2, {"context_layers": 1}),
    ("[3.8]", STEP_2, {"context_in": "both"}),
    ("[3.9]", STEP_2, {"context_join": "gate"}),
    ("[ours]", {"flat/base"}, {"current_layers": 2}),
    ("", RECIPES - STEP_2, {"context_layers": None, "context_in": None, "context_join": None}),
    ("", RECIPES - {"flat/base"}, {"current_layers": None}),
    ("", RECIPES, {"doc_mode": "partial", "attention": None, "window": (None, None, None, None)}),
    ("[release]", RECIPES, {"decoder_start": "bos"}),
    # Regularisation.
    ("[Vaswani]", RECIPES, {"dropout": 0.1, "label_smoothing": 0.1}),
    ("", RECIPES, {"attention_dropout": 0.0, "doc_noise_mask": 0.0, "doc_noise_epochs": None}),
    # Optimisation.
    ("[ours]", RECIPES, {"criterion": "fused_label_smoothed_cross_entropy", "warmup_init_lr": 1e-7}),
    ("[3.1]", RECIPES, {"optimizer": "fused_adam"}),
    ("[Vaswani]", RECIPES, {"adam_betas": "(0.9, 0.98)"}),
    ("[3.1], [Vaswani]", {"document/sentences", "flat/base"}, {"lr": 7e-4}),
    ("[ours]", {"document/alone"}, {"lr": 7e-4}),
    ("[code]", {"document/base"}, {"lr": 7e-5}),
    ("[3.1], [Vaswani]", RECIPES, {"lr_scheduler": "inverse_sqrt"}),
    ("[Vaswani]", {"document/sentences", "flat/base"}, {"warmup_updates": 4000}),
    ("[code]", STEP_2, {"warmup_updates": 4000}),
    ("[Vaswani]", RECIPES, {"adam_eps": 1e-9}),
    ("", RECIPES, {"lr_pretrained": None, "total_num_update": None, "max_update": 0}),
    ("[ours]", RECIPES, {"patience": 10}),
    # Size of an update: 24,000 tokens of single sentences; context counts as tokens.
    ("[3.1]", RECIPES, {"max_tokens": 6000}),
    ("", RECIPES, {"devices": 4}),
    ("[3.1]", {"document/sentences"}, {"update_freq": 1}),
    ("[ours]", CURRENT, {"update_freq": 3}),
    # Where it starts, and what is trained.
    ("[2.4]", {"document/base"}, {"load_partial": True, "freeze_sentence_parameters": True}),
    ("", {"document/base"}, {"pretrained_from": "document/sentences"}),
    ("", RECIPES - {"document/base"}, {"pretrained_from": None, "load_partial": False}),
    ("", {"document/alone"}, {"freeze_sentence_parameters": False}),
    ("", RECIPES - STEP_2, {"freeze_sentence_parameters": None}),
    # Search.
    ("[3.1]", RECIPES, {"beam": 4, "lenpen": 0.6}),
    ("[release]", RECIPES, {"max_len": (1.2, 10), "instances": 16}),
]  # fmt: skip

SMALL = (3, 256, 1024, 4)
OURS = {
    "document/small_sentences": ("document/sentences", {
        "bpe_merges": 8000, "arch": "doc_transformer_compact", "encoder": SMALL, "decoder": SMALL, "lr": 1e-3,
        "warmup_updates": 500, "max_tokens": 4096, "devices": 1,
    }),
    "document/small": ("document/small_sentences", {
        "arch": "document_transformer_compact", "prepared_from": "document/small_sentences",
        "pretrained_from": "document/small_sentences", "load_partial": True, "freeze_sentence_parameters": True,
        "grouping": ("current", None, 2), "walk": ("current", None, 2, "full"), "max_sents": 3, "lr": 5e-4,
        "context_layers": 1, "context_in": "both", "context_join": "gate",
    }),
    "flat/small": ("document/small_sentences", {
        "arch": "flat_transformer_compact", "prepared_from": "document/small_sentences", "current_layers": 1,
        "grouping": ("current", None, 2), "walk": ("current", None, 2, "full"), "max_sents": 3,
    }),
}  # fmt: skip

ROWS = {
    ("document-transformer 1", "2"): "document/base",
    ("document-transformer 2", "1"): "document/base",
    ("document-transformer 3", "(Vaswani et al., 2017), Transformer"): "document/sentences",
    ("document-transformer 3", "this work, Transformer"): "document/base",
    ("document-transformer 4", "Transformer"): "document/sentences",
    ("document-transformer 4", "this work"): "document/base",
    ("document-transformer 6", "Transformer"): "document/sentences",
    ("document-transformer 6", "this work"): "document/base",
    ("document-transformer 7", "2M, -"): "document/sentences",
    ("document-transformer 7", "-, 940K"): "document/alone",
    ("document-transformer 7", "2M, 940K"): "document/base",
    ("document-transformer 8", "none"): "document/sentences",
    ("document-transformer 8", "both"): "document/base",
    ("document-transformer 9", "w/"): "document/base",
}
