"""LST attention: self-attention to sentence and document side by side."""

from gtransformer.models.lst.model import LstTransformerModel

__all__ = ["LstTransformerModel"]
