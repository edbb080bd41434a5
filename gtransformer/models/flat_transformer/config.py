"""Options of the Flat-Transformer."""

from dataclasses import dataclass

from gtransformer.models.common.config import DocumentModelConfig, option


# The annotations below must be types, not strings, because fairseq builds its command line from them.
@dataclass
class FlatTransformerConfig(DocumentModelConfig):
    """A Transformer, and how many of its encoder layers look at the current sentence alone."""

    current_layers: int = option(2, "N: top encoder layers that see the current sentence alone; the others see all")
