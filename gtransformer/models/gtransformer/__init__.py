"""G-Transformer: configuration, encoder, decoder, model and architectures."""

from gtransformer.models.gtransformer import architectures, bert  # noqa: F401
from gtransformer.models.gtransformer.config import GTransformerConfig
from gtransformer.models.gtransformer.model import GTransformerModel

__all__ = ["GTransformerConfig", "GTransformerModel"]
