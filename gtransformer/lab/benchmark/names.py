"""Names of the measured systems."""

from __future__ import annotations

FAIRSEQ, LST, WINDOWS = "fairseq", "lst_transformer", "window_transformer"
DOC_TRANSFORMER, DOCUMENT_TRANSFORMER = "doc_transformer", "document_transformer"
CTRANSLATE2 = "ctranslate2"  # decodes the sentences of fairseq's Transformer
INT8 = "int8"  # a precision
GTRANSFORMER = ("dense", "packed")  # its engines
DENSE = "_dense"  # suffix: with the dense engine
OTHERS = (DOC_TRANSFORMER, f"{DOC_TRANSFORMER}{DENSE}", LST, WINDOWS, DOCUMENT_TRANSFORMER)
PSEUDO = "pseudo_documents"  # doc_transformer on pseudo-documents
BATCHED = (PSEUDO, "docflat", "abd", "mbe")  # batches of consecutive sentences of a document, each with local context
SYSTEMS = (FAIRSEQ, CTRANSLATE2, *GTRANSFORMER, *OTHERS, *BATCHED)
