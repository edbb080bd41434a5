"""Which attention stands in which layer: by group, over the document, or both combined (section 4.2).

The paper's model has group attention below and combined attention on the top layers; ``--doc-mode full`` has attention
over the document everywhere. What lies between them are the ablations of its Tables 5 and 6.
"""

from __future__ import annotations

from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence
from gtransformer.models.common.config import SENTENCE
from gtransformer.models.gtransformer.config import GTransformerConfig

GROUP = "group"  # Eq. 8 alone
COMBINED = "combined"  # Eq. 10: group and global attention, gated
GLOBAL = "global"  # Eq. 5 alone, over the whole document
SCOPES = {
    GROUP: ((BySentence(),),),
    COMBINED: ((BySentence(),), (ByDocument(),)),
    GLOBAL: ((ByDocument(),),),
}


def attention_kinds(cfg: GTransformerConfig, part: str) -> list[str]:
    """GROUP, COMBINED or GLOBAL for every layer, lowest first.

    Args:
        part: "encoder" or "decoder" (self-attention), or "cross" (the decoder's attention to the source).
    """
    layers = cfg.encoder_layers if part == "encoder" else cfg.decoder_layers
    unbound = cfg.no_translation_locality if part == "cross" else cfg.no_language_locality
    if cfg.doc_mode == "full" or unbound:
        return [GLOBAL] * layers
    context = getattr(cfg, f"{part}_ctxlayers")
    return [GROUP] * (layers - context) + [str(cfg.context_attention)] * context


def encoder_blocks(cfg: GTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
    """The attention of each encoder layer (group: Eq. 8 with G_Q = G_K = G_X)."""
    return [(AttentionBlock("self_attn", SCOPES[kind], **_beginning(cfg)),) for kind in attention_kinds(cfg, "encoder")]


def decoder_blocks(cfg: GTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
    """Self-attention (group: G_Q = G_K = G_Y) and cross-attention (group: G_Q = G_Y, G_K = G_X) of each layer."""
    return [
        (
            AttentionBlock("self_attn", SCOPES[own], causal=True, **_beginning(cfg)),
            AttentionBlock("encoder_attn", SCOPES[cross], memory="source", **_beginning(cfg)),
        )
        for own, cross in zip(attention_kinds(cfg, "decoder"), attention_kinds(cfg, "cross"), strict=True)
    ]


def _beginning(cfg: GTransformerConfig) -> dict[str, bool | float]:
    """What global attention knows, and how much of it gates let through before anything is learned."""
    return {"numbered": str(cfg.positions) == SENTENCE, "gate_bias": cfg.gate_bias or 0.0}
