"""What recipes that start from a sentence model come to, and those that they have to beat: see recipe_figures."""

# The recipe whose values it has, and all that differs; all of it ours.
START = {  # exact
    "by_sentence": True, "gates": (0, True), "marks_loss": "off", "adam_eps": 1e-9,
    "doc_noise_mask": 0.0, "doc_noise_epochs": None, "walk": ("stored", None, None, "sequential"),
}  # fmt: skip
RATE = {"lr_pretrained": 4e-4}
FALLING = {"lr_scheduler": "linear_by_time"}
ANEW = {"warmup_updates": 100, **FALLING}  # in a short training
TOP = {"attention": ("ggc", "ggc", "ggc")}  # one layer of three, as two of six in the paper
OURS = {
    "gtransformer/scratch": ("base", {"by_sentence": True, "prepared_from": "base"}),
    "gtransformer/scratch_small": ("cpu_small", {"by_sentence": True, "prepared_from": "cpu_small"}),
    "gtransformer/warm": ("doc_base_finetune", START),
    "gtransformer/warm_small": ("cpu_small_finetune", START),
    "gtransformer/from_sentences": ("doc_base_finetune", {
        **START, "share_all_embeddings": False, "bpe_merges": None, "load_partial": False, "prepared_from": None,
        "pretrained_from": None, "marks_loss": "on",  # --sentence-model says off
    }),
    "gtransformer/few_documents": ("gtransformer/from_sentences", {
        "devices": 1, "warmup_updates": 50, "warmup_init_lr": None, "lr_scheduler": "polynomial_decay",
        "max_update": 500, "total_num_update": 500, "patience": -1,
    }),
    "proof/sentences": ("cpu_small_sent", {"pretrained_from": "cpu_small_sent", "lr": 4e-4, **ANEW}),
    "proof/sentences_resumed": ("cpu_small_sent", {"pretrained_from": "cpu_small_sent", **FALLING}),
    "proof/gtransformer_warm": ("gtransformer/warm_small", {**ANEW, **RATE, **TOP}),
    "proof/gtransformer_warm_new": ("proof/gtransformer_warm", {"trained_parameters": "new"}),
    "proof/gtransformer_paper": ("cpu_small_finetune", {**ANEW, **RATE, **TOP}),
    "proof/gtransformer_paper_unmasked": ("proof/gtransformer_paper", {
        "doc_noise_mask": 0.0, "doc_noise_epochs": None,
    }),
    "proof/concatenation": ("proof/sentences", {
        "grouping": ("sliding", None, 2), "walk": ("disjoint", None, 2, "full"), "max_sents": 3, "marks_loss": "off",
    }),
    "proof/document_transformer": ("proof/sentences", {
        "arch": "document_transformer_compact", "attention": None, "load_partial": True, "lr": 5e-4,
        "freeze_sentence_parameters": True, "context_layers": 1, "context_in": "both", "context_join": "gate",
        "grouping": ("current", None, 2), "walk": ("current", None, 2, "full"), "max_sents": 3,
    }),
}  # fmt: skip
