"""Named sizes: ``--arch gtransformer_{mini,compact,tiny,small,base,big,large,mbart_large}``."""

from gtransformer.models.common.architectures import SIZES, both_sides, register, register_sizes
from gtransformer.models.gtransformer.config import GTransformerConfig
from gtransformer.models.gtransformer.model import GTransformerModel

MBART_LARGE = "gtransformer_mbart_large"
ARCHITECTURES = {f"gtransformer_{size}": sizes for size, sizes in SIZES.items()}
ARCHITECTURES[MBART_LARGE] = both_sides(1024, 4096, 12, 16)

# What mBART25 is besides its sizes (Liu et al. 2020, section 2.2, and its checkpoint): it can be nothing else.
MBART = {
    "activation_fn": "gelu",
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "layernorm_embedding": True,
    "share_all_embeddings": True,
    "no_scale_embedding": False,
    "no_token_positional_embeddings": False,
}

register_sizes("gtransformer", GTransformerModel, GTransformerConfig)
register(MBART_LARGE, GTransformerModel, GTransformerConfig, ARCHITECTURES[MBART_LARGE], **MBART)
