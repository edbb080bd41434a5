"""G-Transformer + BERT: the encoder is BERT's, initialised from a checkpoint of Hugging Face
transformers (Table 2).

BERT's encoder (Devlin et al. 2019) is a Transformer with layer norm after each block, learned
positions, a layer norm on the embeddings and no embedding scale. Its segment embedding is constant
here and is added to the positions; its pooler has no counterpart. Each sentence of a document is
``[CLS] words [SEP]`` for BERT and ``<s> words </s>`` here. The decoder is the usual one.
"""

from dataclasses import dataclass, replace

from gtransformer.models.common.config import option
from gtransformer.models.common.model import register
from gtransformer.models.gtransformer.model import GTransformerConfig, GTransformerModel

BERT_POSITIONS = 512
LAYER_NORM_EPS = 1e-12  # of all published BERT models
# Whatever options the decoder has.
STRUCTURE = {
    "activation_fn": "gelu",
    "encoder_normalize_before": False,
    "encoder_learned_pos": True,
    "layernorm_embedding": True,
    "no_scale_embedding": True,
    "no_token_positional_embeddings": False,
    "layer_norm_eps": LAYER_NORM_EPS,
}


@dataclass
class GTransformerBertConfig(GTransformerConfig):
    """The encoder is BERT base; the decoder as wide, with the six layers of the base model."""

    encoder_embed_dim: int = option(768, "encoder model dimension, BERT's")
    encoder_ffn_embed_dim: int = option(3072, "encoder feed-forward dimension, BERT's")
    encoder_layers: int = option(12, "encoder layers, BERT's")
    encoder_attention_heads: int = option(12, "encoder attention heads, BERT's")
    decoder_embed_dim: int = option(768, "decoder model dimension")
    decoder_ffn_embed_dim: int = option(3072, "decoder feed-forward dimension")
    decoder_attention_heads: int = option(12, "decoder attention heads")
    bert_checkpoint: str | None = option(
        None,
        "folder with a BERT of Hugging Face transformers (config.json, weights, tokeniser) to "
        "start training from",
    )


@register("gtransformer_bert", GTransformerBertConfig)
class GTransformerBertModel(GTransformerModel):
    """A G-Transformer whose encoder has the structure of BERT."""

    has_sizes = False

    @classmethod
    def encoder_config(cls, cfg: GTransformerBertConfig) -> GTransformerBertConfig:
        """Return BERT's structure, with at most as many positions; the decoder keeps the given
        options.
        """
        # BERT's table of positions is no longer, whatever the data need.
        return replace(
            cfg, **STRUCTURE, max_source_positions=min(cfg.max_source_positions, BERT_POSITIONS)
        )

    def is_pretrained(self, name: str) -> bool:
        """Return True for the encoder's parameters except global attention and gates; the decoder
        starts from random values.
        """
        return name.startswith("encoder.") and super().is_pretrained(name)
