"""The systems that are measured, by name."""

from __future__ import annotations

FAIRSEQ, LST, WINDOWS = "fairseq", "lst_transformer", "window_transformer"
SENTENCES, BESIDE = "doc_transformer", "document_transformer"
GTRANSFORMER = ("dense", "packed")  # by its engine
DENSE = "_dense"  # by the dense engine
OTHERS = (SENTENCES, f"{SENTENCES}{DENSE}", LST, WINDOWS, BESIDE)
PSEUDO = "pseudo_documents"  # doc_transformer over them
BATCHED = (PSEUDO, "docflat", "abd", "mbe")  # over consecutive sentences of a document, each with local context
SYSTEMS = (FAIRSEQ, *GTRANSFORMER, *OTHERS, *BATCHED)
