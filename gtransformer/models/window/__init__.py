"""Window attention: every query sees a window around the place that it is aligned with."""

from gtransformer.models.window.config import WindowTransformerConfig
from gtransformer.models.window.model import WindowTransformerModel

__all__ = ["WindowTransformerConfig", "WindowTransformerModel"]
