"""LST attention (Zhang et al. 2020 b, as "Improving Long Context Document-Level Machine Translation", 3.2, has it).

Self-attention of encoder and decoder is computed twice, within the sentence and over the whole document, and the two
context vectors are concatenated in front of one linear layer; cross-attention is unrestricted. The papers leave open in
which layers, and with which projections: here in all, and both with the same queries, keys and values, since the 51
million parameters of all systems there leave no room for a second set.
"""

from __future__ import annotations

from fairseq.models import register_model

from gtransformer.models.common.architectures import register_sizes
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel

NAME = "lst_transformer"
SENTENCE_AND_DOCUMENT = ((BySentence(), ByDocument()),)


@register_model(NAME, dataclass=DocumentModelConfig)
class LstTransformerModel(DocumentModel):
    """Long and short term attention in every layer's self-attention."""

    @classmethod
    def encoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        return [(AttentionBlock("self_attn", SENTENCE_AND_DOCUMENT),)] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        own = AttentionBlock("self_attn", SENTENCE_AND_DOCUMENT, causal=True)
        return [(own, AttentionBlock("encoder_attn", ((ByDocument(),),), memory="source"))] * cfg.decoder_layers


register_sizes(NAME, LstTransformerModel, DocumentModelConfig)
