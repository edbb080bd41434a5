"""What recipes should come to: every figure once, with its source, and the rows of the paper that recipes stand for."""

from __future__ import annotations

from tests.core.run import docflat_figures, document_figures, warm_figures

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
PREPARES = {"base", "bert", "mbart"}
# The recipes of Herold and Ney (2023): by which sentences stand together.
DOCUMENTS = {"concatenation/documents", "lst/base", "window/base"}
LONG_CONTEXT = DOCUMENTS | {"concatenation/sentences", "concatenation/one", "concatenation/two"}
# Those of Zhang et al. (2018) are in document_figures.py, those of Wu et al. (2023) in docflat_figures.py.
OF_PAPERS = PAPER | LONG_CONTEXT | document_figures.RECIPES | docflat_figures.RECIPES
DOCUMENT, CONTEXT, NO_CONTEXT = "dddddd", "ggggcc", "gggggg"  # six layers: top 2 of them combined
DEEP = "g" * 10 + "cc"
SMALL_SIDE, LARGE_SIDE = (6, 512, 2048, 8), (12, 1024, 4096, 16)

# Every figure once: source, recipes that it is meant for, and what it says. Numbers in brackets are parts of Bao et al.
# (2021), of LONG_CONTEXT those of Herold and Ney (2023); [release]: the former's code and scripts; [mBART]: Liu et al.
# (2020), section 4.1. "": fairseq's default, or what follows from another figure.
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
    ("", MBART - PREPARES, {"prepared_from": "mbart"}),
    ("", PAPER | LONG_CONTEXT, {"vocabulary_from": None}),
    # Which sentences stand together in training (kind, tokens, context); in generation, how documents are gone through.
    ("", PAPER - SENTENCES, {"grouping": ("stored", None, None), "walk": ("stored", None, None, "full")}),
    ("", SENTENCES, {"grouping": ("disjoint", None, 0), "walk": ("disjoint", None, 0, "full")}),
    ("", PAPER, {"context_loss": "on", "sentence_rule": "auto", "max_pair_tokens": None}),
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
    ("[C.1]", PAPER, {"optimizer": "fused_adam"}),  # Adam, but faster
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
    # Context beside the sentence.
    ("", PAPER | LONG_CONTEXT, {"context_layers": None, "context_in": None, "context_join": None}),
    ("", PAPER | LONG_CONTEXT, {"current_layers": None, "freeze_sentence_parameters": None}),
    ("", OF_PAPERS, {"by_sentence": False, "gates": (None, False), "marks_loss": "on", "trained_parameters": "all"}),
    # Windows.
    ("", PAPER | LONG_CONTEXT - {"window/base"}, {"window": (None, None, None, None)}),
    # Herold and Ney (2023): corpus.
    ("[A.2]", LONG_CONTEXT, {"bpe_merges": 15_000}),
    ("[3.1]", LONG_CONTEXT, {"max_instance_tokens": 1000}),
    ("", LONG_CONTEXT, {"max_sentence_tokens": 1024}),
    ("", {"concatenation/sentences"}, {"prepared_from": None}),
    ("", LONG_CONTEXT - {"concatenation/sentences"}, {"prepared_from": "concatenation/sentences"}),
    ("[3.1]", {"concatenation/sentences"}, {
        "grouping": ("disjoint", None, 0), "walk": ("disjoint", None, 0, "full"), "max_sents": 1,
    }),
    ("[A.2]", {"concatenation/one"}, {
        "grouping": ("sliding", None, 1), "walk": ("disjoint", None, 1, "full"), "max_sents": 2,
    }),
    ("[A.2]", {"concatenation/two"}, {
        "grouping": ("sliding", None, 2), "walk": ("disjoint", None, 2, "full"), "max_sents": 3,
    }),
    ("[3.1]", DOCUMENTS, {"grouping": ("parts", 1000, None), "max_sents": None}),
    ("", DOCUMENTS - {"window/base"}, {"walk": ("parts", 1000, None, "full")}),
    ("[4.2]", {"window/base"}, {"walk": ("parts", 1000, None, "sequential")}),
    ("[A.2]", LONG_CONTEXT, {"context_loss": "on"}),
    ("", LONG_CONTEXT, {"max_pair_tokens": None}),
    ("", LONG_CONTEXT, {"sentence_rule": "auto"}),  # ours: the paper's search is free
    # Model.
    ("[A.2]", LONG_CONTEXT, {"encoder": SMALL_SIDE, "decoder": SMALL_SIDE, "share_all_embeddings": True}),
    ("[A.2]", LONG_CONTEXT - {"lst/base", "window/base"}, {"arch": "doc_transformer_base"}),
    ("[A.2]", {"lst/base"}, {"arch": "lst_transformer_base"}),
    ("[A.2]", {"window/base"}, {"arch": "window_transformer_base"}),
    ("[4.3]", {"window/base"}, {"window": (20, "relative", "linear", "sentence")}),
    ("", LONG_CONTEXT, {"doc_mode": "partial", "attention": None}),  # of G-Transformer alone
    ("[release]", LONG_CONTEXT, {"decoder_start": "bos"}),
    # Regularisation, optimisation, search.
    ("[A.2]", LONG_CONTEXT, {"dropout": 0.3, "label_smoothing": 0.2}),
    ("", LONG_CONTEXT, {"attention_dropout": 0.0, "doc_noise_mask": 0.0, "doc_noise_epochs": None}),
    ("[ours]", LONG_CONTEXT, {
        "criterion": "fused_label_smoothed_cross_entropy", "optimizer": "fused_adam", "adam_betas": "(0.9, 0.98)",
        "lr": 5e-4, "lr_scheduler": "inverse_sqrt", "warmup_updates": 4000, "warmup_init_lr": 1e-7, "update_freq": 4,
    }),
    ("", LONG_CONTEXT, {"adam_eps": 1e-8, "lr_pretrained": None, "total_num_update": None, "max_update": 0}),
    ("[A.2], [release]", LONG_CONTEXT, {"patience": 10}),
    ("[A.2]", LONG_CONTEXT, {"devices": 1}),
    ("[release]", LONG_CONTEXT, {"max_tokens": 4096, "max_len": (1.2, 10), "instances": 16}),
    ("", LONG_CONTEXT, {"pretrained_from": None, "load_partial": False}),  # from scratch
    ("[3.4], [A.2]", LONG_CONTEXT, {"beam": 12}),
    ("[A.2]", LONG_CONTEXT, {"lenpen": 1.0}),
    *document_figures.FIGURES,
    ("", OF_PAPERS - docflat_figures.RECIPES, docflat_figures.OF_BATCHES),
    *docflat_figures.FIGURES,
]  # fmt: skip

# What is none of the paper's, for CPUs: the recipe whose values it has, and all that differs.
OURS = {
    "cpu_small": ("base", {
        "bpe_merges": 8000, "arch": "gtransformer_compact", "encoder": (3, 256, 1024, 4), "decoder": (3, 256, 1024, 4),
        "attention": ("gcc",) * 3, "dropout": 0.1, "doc_noise_mask": 0.1, "lr": 1e-3, "warmup_updates": 500,
        "devices": 1,
    }),
    "cpu_small_doc": ("cpu_small", {
        "attention": ("ddd",) * 3, "doc_mode": "full", "doc_noise_mask": 0.0, "doc_noise_epochs": None,
        "prepared_from": "cpu_small",
    }),
    "cpu_small_sent": ("cpu_small_doc", {
        "max_sents": 1, "grouping": ("disjoint", None, 0), "walk": ("disjoint", None, 0, "full"),
    }),
    "cpu_small_finetune": ("cpu_small", {
        "prepared_from": "cpu_small", "pretrained_from": "cpu_small_sent", "load_partial": True, "lr_pretrained": 2e-4,
        "doc_noise_epochs": 40,  # as the paper's are
    }),
    "cpu_tiny": ("cpu_small", {
        "bpe_merges": 300, "arch": "gtransformer_mini", "encoder": (2, 128, 512, 4), "decoder": (2, 128, 512, 4),
        "attention": ("gc",) * 3, "warmup_updates": 4, "max_tokens": 1500, "max_update": 10, "beam": 2,
    }),
    "demo": ("base", {
        "bpe_merges": 4000, "arch": "gtransformer_mini", "encoder": (3, 128, 512, 4), "decoder": (3, 128, 512, 4),
        "attention": ("gcc",) * 3, "dropout": 0.1, "doc_noise_mask": 0.0, "doc_noise_epochs": None, "lr": 1e-3,
        "lr_scheduler": "polynomial_decay", "warmup_updates": 200, "warmup_init_lr": None, "total_num_update": 1400,
        "max_update": 1400, "patience": -1, "devices": 1, "max_tokens": 3000, "optimizer": "adam",
    }),
    "demo_full": ("demo", {"prepared_from": "demo", "attention": ("ddd",) * 3, "doc_mode": "full"}),
    "concatenation/small_sentences": ("concatenation/sentences", {
        "bpe_merges": 8000, "arch": "doc_transformer_compact", "encoder": (3, 256, 1024, 4),
        "decoder": (3, 256, 1024, 4), "dropout": 0.1, "lr": 1e-3, "warmup_updates": 500, "update_freq": 1, "beam": 5,
    }),
    "concatenation/small_two": ("concatenation/small_sentences", {
        "prepared_from": "concatenation/small_sentences", "grouping": ("sliding", None, 2),
        "walk": ("disjoint", None, 2, "full"), "max_sents": 3,
    }),
    "concatenation/small_documents": ("concatenation/small_sentences", {
        "prepared_from": "concatenation/small_sentences", "grouping": ("parts", 1000, None),
        "walk": ("parts", 1000, None, "full"), "max_sents": None,
    }),
    "lst/small": ("concatenation/small_documents", {"arch": "lst_transformer_compact"}),
    "window/small": ("concatenation/small_documents", {
        "arch": "window_transformer_compact", "window": (20, "relative", "linear", "sentence"),
        "walk": ("parts", 1000, None, "sequential"),
    }),
    **warm_figures.OURS,
    **document_figures.OURS,
    **docflat_figures.OURS,
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
    ("window-attention 1", "sentlevel, 0 sent."): "concatenation/sentences",
    ("window-attention 1", "concat adj., 1 sent."): "concatenation/one",
    ("window-attention 1", "concat adj., 1000 tok."): "concatenation/documents",
    ("window-attention 3", "sentlevel, 0 sent., -"): "concatenation/sentences",
    ("window-attention 3", "concat-adj., 2 sent., FSD"): "concatenation/two",
    ("window-attention 3", "concat-adj., 1000 tok., FSD"): "concatenation/documents",
    ("window-attention 3", "LST-attn, 1000 tok., FSD"): "lst/base",
    ("window-attention 3", "window-attn, 1000 tok., SD"): "window/base",
    ("window-attention 4", "concat-adj., abs., -, -"): "concatenation/documents",
    ("window-attention 4", "window-attn, rel., sent-align, 20"): "window/base",
    ("window-attention 5", "sentlevel (ours), 0 sent."): "concatenation/sentences",
    ("window-attention 5", "concat adj., 2 sent."): "concatenation/two",
    ("window-attention 5", "concat adj., 1000 tok."): "concatenation/documents",
    ("window-attention 5", "LST-attn, 1000 tok."): "lst/base",
    ("window-attention 5", "window-attn, 1000 tok."): "window/base",
    ("window-attention 6", "sentlevel, 0 sent."): "concatenation/sentences",
    ("window-attention 6", "concat adj., 2 sent."): "concatenation/two",
    ("window-attention 6", "concat adj., 1000 tok."): "concatenation/documents",
    ("window-attention 6", "LST-attn, 1000 tok."): "lst/base",
    ("window-attention 6", "window-attn, 1000 tok."): "window/base",
    **document_figures.ROWS,
    **docflat_figures.ROWS,
}

# By table: the number of rows that are other people's systems, or only a heading.
OTHERS = {"2": {"SENTNMT", "HAN", "SAN", "Hybrid Context", "Flat-Transformer", "Fine-tuning on Pre-trained Model",
                "Flat-Transformer+BERT"}, "6": {"G-Transformer (rnd.)"}}  # fmt: skip

# Of Herold and Ney (2023), whose other tables have no systems in rows: how many columns say what a row is; rows that
# are other people's systems, do not train, or are the models above with another search or another w.
LABELS = {"1": 2, "3": 3, "4": 4, "5": 2, "6": 2}
WINDOW = ("1-1, 20", "train avg., 20", "sent-align, 10", "sent-align, 20", "sent-align, 30")
VARIANTS = {
    "3": {f"{one}, SD" for one in ("concat-adj., 2 sent.", "concat-adj., 1000 tok.", "LST-attn, 1000 tok.")}
         | {"window-attn, 1000 tok., FSD"},
    "4": {"concat-adj., rel., -, -"} | {f"window-attn, {kind}, {rest}" for kind in ("abs.", "rel.") for rest in WINDOW}
         - {"window-attn, rel., sent-align, 20"},
    "5": {"sentlevel (external), 0 sent."},
}  # fmt: skip
