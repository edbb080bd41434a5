"""The Flat-Transformer (Ma et al. 2020, "A Simple and Effective Unified Encoder for Document-Level
[...] Translation").

Previous source sentences and the current one are one sequence; segment embeddings distinguish them.
The bottom layers of the encoder see all of it, the top layers and the decoder only the current
sentence. Instances are those of ``--instances current --context-sentences K``.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from gtransformer.data.group_tags import compacted, last_sentences
from gtransformer.errors import UserError
from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.model import Needs, register
from gtransformer.models.transformer import InstanceTransformerModel
from gtransformer.modules.kernels import dropout


@dataclass
class FlatTransformerConfig(DocumentModelConfig):
    """A Transformer, and how many of its encoder layers see only the current sentence."""

    current_layers: int = option(
        2, "N: top encoder layers that see only the current sentence; the others see all"
    )


class FlatEncoder(DocumentEncoder):
    """Encoder of the last sentence of each source; the bottom layers also read the previous ones.

    No top layer and no decoder reads context states above the bottom layers, so these are not
    computed. Arguments are those of ``DocumentEncoder``.
    """

    def __init__(self, cfg: FlatTransformerConfig, *inputs):
        super().__init__(cfg, *inputs)
        # As wide as the words, with their variance.
        self.embed_segments = nn.Embedding(2, cfg.encoder_embed_dim)  # context, current sentence
        nn.init.normal_(self.embed_segments.weight, std=cfg.encoder_embed_dim**-0.5)

    def forward(self, src_tokens: Tensor, **unused) -> dict[str, list]:
        """Encode as ``DocumentEncoder.forward`` does, the last sentence."""
        # An instance is its context, then the current sentence.
        last = last_sentences(src_tokens, self.bos, self.padding)
        current = compacted(src_tokens, last, self.padding)
        whole, layout = self.layout(src_tokens), self.layout(current)
        bottom = len(self.layers) - self.cfg.current_layers
        with self.autocast():
            segments = self.embed_segments(whole.pack(last.long()))
            x = self.add_positions(
                self.words(whole.pack(src_tokens)), whole.offset, whole.length, segments
            )
            x = dropout(x, self.cfg.dropout, self.training)
            x = self.run_some(self.layers[:bottom], x, self.view(whole))
            # From here on only the current sentence: context states of higher layers are read by
            # nothing.
            x = x[whole.pack(last)]
            x = self.run_some(self.layers[bottom:], x, self.view(layout))
            return self.output(layout, self.layer_norm(x))


@register("flat_transformer", FlatTransformerConfig)
class FlatTransformerModel(InstanceTransformerModel):
    """A Transformer with one encoder for context and current sentence."""

    encoder_class = FlatEncoder
    needs = Needs(last_sentence_only=True)

    @classmethod
    def check(cls, cfg: FlatTransformerConfig) -> None:
        """Raise UserError for more layers on the current sentence than there are."""
        if not 0 <= cfg.current_layers <= cfg.encoder_layers:
            raise UserError(
                f"--current-layers {cfg.current_layers} is not between 0 and the "
                f"{cfg.encoder_layers} encoder layers"
            )
