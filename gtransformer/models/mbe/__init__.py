"""Mini-batch embedding: a vector of the batch beside the words of every instance."""

from gtransformer.models.mbe.config import MbeConfig
from gtransformer.models.mbe.model import MbeModel

__all__ = ["MbeConfig", "MbeModel"]
