"""G-Transformer, and G-Transformer + BERT."""

from gtransformer.models.gtransformer import bert  # noqa: F401
from gtransformer.models.gtransformer.model import GTransformerConfig, GTransformerModel

__all__ = ["GTransformerConfig", "GTransformerModel"]
