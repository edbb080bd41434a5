"""Document Transformer: previous source sentences have an encoder of their own, which every layer attends to."""

from gtransformer.models.document_transformer.config import DocumentTransformerConfig
from gtransformer.models.document_transformer.model import DocumentTransformerModel

__all__ = ["DocumentTransformerConfig", "DocumentTransformerModel"]
