"""The plain Transformer over whatever stands together in an instance: a sentence, k + 1 sentences, a document."""

from gtransformer.models.transformer.model import InstanceTransformerModel

__all__ = ["InstanceTransformerModel"]
