"""Document Flattening, and attention between datapoints: pseudo-documents that attend to the others of their batch."""

from gtransformer.models.docflat.model import AbdConfig, AbdModel, BatchAttentionConfig, DocFlatConfig, DocFlatModel

__all__ = ["AbdConfig", "AbdModel", "BatchAttentionConfig", "DocFlatConfig", "DocFlatModel"]
