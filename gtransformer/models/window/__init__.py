"""Window attention: every query sees a window around the position that it is aligned with."""

from gtransformer.models.window.model import WindowTransformerConfig, WindowTransformerModel

__all__ = ["WindowTransformerConfig", "WindowTransformerModel"]
