"""Flat-Transformer: context and current sentence in one encoder, whose top layers are the current sentence's alone."""

from gtransformer.models.flat_transformer.config import FlatTransformerConfig
from gtransformer.models.flat_transformer.model import FlatTransformerModel

__all__ = ["FlatTransformerConfig", "FlatTransformerModel"]
