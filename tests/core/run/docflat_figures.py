"""What the recipes of Document Flattening and of what it is compared with come to, as ``recipe_figures`` has them.

Numbers in brackets are parts of Wu et al. (2023); [Vaswani]: Vaswani et al. (2017); [release]: the code of Bao et al.
(2021).
"""

from __future__ import annotations

SENTENCES = "docflat/sentences"
FLAT = {f"docflat/{gate}" for gate in "cdi"}
BATCH = FLAT | {"docflat/mbe", "docflat/abd"}
PSEUDO = BATCH | {"docflat/doc2doc"}
STAGE_2 = PSEUDO | {"docflat/flat"}
RECIPES = STAGE_2 | {SENTENCES}
BASE = (6, 512, 2048, 8)
ALWAYS = 1_000_000  # epochs of word dropout
# What only these recipes have.
OF_BATCHES = {
    "batch_order": "size", "join_documents": False, "averaged": None, "kept": None, "passes": (None, None),
    "context_gate": None, "gate_threshold": None, "batch_attention_in": None, "batch_vector_in": None,
    "sentence_numbers": None,
}  # fmt: skip

FIGURES = [
    # Corpus.
    ("[4.1]", RECIPES, {"bpe_merges": 32_000}),
    ("", RECIPES, {"max_sentence_tokens": 1024, "max_pair_tokens": None}),
    ("[ours]", RECIPES, {"max_instance_tokens": 512}),
    ("", {SENTENCES}, {"prepared_from": None}),
    ("", STAGE_2, {"prepared_from": SENTENCES}),
    ("", RECIPES, {"vocabulary_from": None}),
    # Which sentences stand together, and in a batch.
    ("[B]", {SENTENCES}, {"grouping": ("disjoint", None, 0), "walk": ("disjoint", None, 0, "full"), "max_sents": 1}),
    ("[2]", PSEUDO, {"grouping": ("sliding", None, 3)}),
    ("", PSEUDO, {"walk": ("sliding", None, 3, "full"), "max_sents": 4}),
    ("[4.1]", {"docflat/flat"}, {"grouping": ("current", None, 3)}),
    ("", {"docflat/flat"}, {"walk": ("current", None, 3, "full"), "max_sents": 4}),
    ("[2]", PSEUDO, {"context_loss": "off"}),
    ("", RECIPES - PSEUDO, {"context_loss": "on"}),
    ("[3.4]", STAGE_2, {"batch_order": "document"}),
    ("[ours]", STAGE_2, {"join_documents": True}),
    ("", {SENTENCES}, {"batch_order": "size", "join_documents": False}),
    ("", RECIPES, {"sentence_rule": "auto"}),
    # Model.
    ("[4.1]", {SENTENCES, "docflat/doc2doc"}, {"arch": "doc_transformer_base"}),
    ("[3.1]", FLAT, {"arch": "docflat_base"}),
    ("[4.1]", {"docflat/mbe"}, {"arch": "mbe_base"}),
    ("[C]", {"docflat/abd"}, {"arch": "abd_base"}),
    ("[4.1]", {"docflat/flat"}, {"arch": "flat_transformer_base"}),
    ("", RECIPES, {"encoder": BASE, "decoder": BASE}),
    ("[ours]", RECIPES, {"share_all_embeddings": True}),
    ("[3.3] Equation 8", {"docflat/c"}, {"context_gate": "continuous"}),
    ("[3.3] Equation 9", {"docflat/d"}, {"context_gate": "discrete"}),
    ("[4.3] Table 4", {"docflat/i"}, {"context_gate": "identity"}),
    ("", RECIPES - FLAT, {"context_gate": None, "gate_threshold": None}),
    ("[3.3]", FLAT, {"gate_threshold": 0.5}),
    ("[3.1]", FLAT, {"batch_attention_in": "both"}),
    ("[4.1]", {"docflat/abd"}, {"batch_attention_in": "encoder"}),
    ("", RECIPES - FLAT - {"docflat/abd"}, {"batch_attention_in": None, "sentence_numbers": None}),
    ("[3.4]", FLAT | {"docflat/abd"}, {"sentence_numbers": "on"}),
    ("[1]", {"docflat/mbe"}, {"batch_vector_in": "both"}),
    ("", RECIPES - {"docflat/mbe"}, {"batch_vector_in": None}),
    ("[ours]", {"docflat/flat"}, {"current_layers": 2}),
    ("", RECIPES - {"docflat/flat"}, {"current_layers": None}),
    ("", RECIPES, {
        "context_layers": None, "context_in": None, "context_join": None, "freeze_sentence_parameters": None,
    }),
    ("", RECIPES, {"doc_mode": "partial", "attention": None, "window": (None, None, None, None)}),
    ("[release]", RECIPES, {"decoder_start": "bos"}),
    # Regularisation.
    ("[B]", RECIPES, {"dropout": 0.3}),
    ("[Vaswani]", RECIPES, {"label_smoothing": 0.1}),
    ("", RECIPES, {"attention_dropout": 0.0}),
    ("[B]", STAGE_2, {"doc_noise_mask": 0.1}),
    ("[ours]", STAGE_2, {"doc_noise_epochs": ALWAYS}),
    ("", {SENTENCES}, {"doc_noise_mask": 0.0, "doc_noise_epochs": None}),
    # Optimisation.
    ("[ours]", RECIPES, {"criterion": "fused_label_smoothed_cross_entropy", "warmup_init_lr": 1e-7}),
    ("[B]", RECIPES, {"optimizer": "fused_adam", "adam_betas": "(0.9, 0.98)"}),
    ("[B]", {SENTENCES}, {"lr": 5e-4}),
    ("[B]", STAGE_2, {"lr": 2e-4}),
    ("[B]", RECIPES, {"lr_scheduler": "inverse_sqrt", "warmup_updates": 4000}),
    ("", RECIPES, {"adam_eps": 1e-8, "lr_pretrained": None, "total_num_update": None, "max_update": 0}),
    ("[B]", RECIPES, {"patience": 10}),
    ("[B]", RECIPES, {"max_tokens": 4096, "update_freq": 8, "devices": 1}),
    # Where it starts, and whose mean it is.
    ("[B]", STAGE_2, {"load_partial": True, "pretrained_from": SENTENCES}),
    ("", {SENTENCES}, {"load_partial": False, "pretrained_from": None}),
    ("[B]", STAGE_2, {"averaged": 5}),
    ("", STAGE_2, {"kept": (5, None)}),
    ("", {SENTENCES}, {"averaged": None, "kept": None}),
    # Search.
    ("[4.1]", RECIPES, {"beam": 5}),
    ("", RECIPES, {"lenpen": 1.0}),
    ("[release]", RECIPES, {"max_len": (1.2, 10)}),
    ("[4.1]", RECIPES, {"instances": 16}),
    ("[3.5], [4.1]", PSEUDO, {"passes": ("start", 16)}),
    ("", RECIPES - PSEUDO, {"passes": (None, None)}),
]  # fmt: skip

SMALL = (3, 256, 1024, 4)
START = "docflat/small_sentences"
OURS = {
    START: (SENTENCES, {
        "bpe_merges": 8000, "arch": "doc_transformer_compact", "encoder": SMALL, "decoder": SMALL, "dropout": 0.1,
        "lr": 1e-3, "warmup_updates": 500, "update_freq": 1,
    }),
    "docflat/small_doc2doc": ("docflat/doc2doc", {
        "bpe_merges": 8000, "arch": "doc_transformer_compact", "encoder": SMALL, "decoder": SMALL, "dropout": 0.1,
        "lr": 4e-4, "warmup_updates": 500, "update_freq": 1, "prepared_from": START, "pretrained_from": START,
        "kept": (None, 5),
    }),
    **{
        f"docflat/small_{name}": ("docflat/small_doc2doc", {"arch": f"{arch}_compact", **options})
        for name, arch, options in (
            *(
                (name, "docflat", {
                    "context_gate": gate, "gate_threshold": 0.5, "batch_attention_in": "both", "sentence_numbers": "on",
                })
                for name, gate in (("c", "continuous"), ("d", "discrete"), ("i", "identity"))
            ),
            ("mbe", "mbe", {"batch_vector_in": "both"}),
            ("abd", "abd", {"batch_attention_in": "encoder", "sentence_numbers": "on"}),
        )
    },
}  # fmt: skip

ROWS = {
    ("docflat 2", "SENT2SENT"): SENTENCES,
    ("docflat 2", "DOC2DOC"): "docflat/doc2doc",
    ("docflat 2", "FLATTRANS"): "docflat/flat",
    ("docflat 2", "MBE"): "docflat/mbe",
    ("docflat 2", "ABD"): "docflat/abd",
    ("docflat 2", "DOCFLAT_C"): "docflat/c",
    ("docflat 2", "DOCFLAT_D"): "docflat/d",
    ("docflat 3", "DOCFLAT_C, -, -"): "docflat/c",
    ("docflat 3", "DOCFLAT_D, -, -"): "docflat/d",
    ("docflat 4", "DOCFLAT_C"): "docflat/c",
    ("docflat 4", "DOCFLAT_D"): "docflat/d",
    ("docflat 4", "DOCFLAT_I"): "docflat/i",
    ("docflat 5", "DOC2DOC, ∅, ✓"): "docflat/doc2doc",
    ("docflat 5", "DOCFLAT_C, ✓, ✓"): "docflat/c",
    ("docflat 5", "DOCFLAT_D, ✓, ✓"): "docflat/d",
    ("docflat 6", "DOC2DOC"): "docflat/doc2doc",
    ("docflat 6", "MBE"): "docflat/mbe",
    ("docflat 6", "ABD"): "docflat/abd",
    ("docflat 6", "DOCFLAT_C"): "docflat/c",
    ("docflat 6", "DOCFLAT_D"): "docflat/d",
    ("docflat 7", "DOC2DOC, ✗, ✗"): "docflat/doc2doc",
    ("docflat 7", "ABD, -, ✗"): "docflat/abd",
}
