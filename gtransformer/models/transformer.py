"""The Transformer (Vaswani et al. 2017) as a document model, and long and short term attention (LST).

All attention of the Transformer sees the whole instance. The sentences of an instance (``--instances``) decide between
three systems: the Transformer on sentences, concatenation with k sentences of context (Tiedemann and Scherrer 2017),
and the Transformer over documents. It computes the same as ``--arch gtransformer --doc-mode full``, with the same
parameters.
"""

from __future__ import annotations

from fairseq.models import register_model

from gtransformer.models.common.architectures import register_sizes
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel

WHOLE = ((ByDocument(),),)


@register_model("doc_transformer", dataclass=DocumentModelConfig)
class InstanceTransformerModel(DocumentModel):
    """Self- and cross-attention over the instance in every layer."""

    own_scopes = WHOLE  # of self-attention

    @classmethod
    def encoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        return [(AttentionBlock("self_attn", cls.own_scopes),)] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        own = AttentionBlock("self_attn", cls.own_scopes, causal=True)
        return [(own, AttentionBlock("encoder_attn", WHOLE, memory="source"))] * cfg.decoder_layers


@register_model("lst_transformer", dataclass=DocumentModelConfig)
class LstTransformerModel(InstanceTransformerModel):
    """LST attention (Zhang et al. 2020 b, as in "Improving Long Context Document-Level Machine Translation", 3.2).

    Self-attention is computed twice, within the sentence and over the whole document. The two context vectors are
    concatenated before one linear layer. The papers do not say in which layers, and with which projections. Here it is
    in all layers, with the same queries, keys and values: the 51 million parameters of all systems there leave no room
    for a second set.
    """

    own_scopes = ((BySentence(), ByDocument()),)


register_sizes("doc_transformer", InstanceTransformerModel, DocumentModelConfig)
register_sizes("lst_transformer", LstTransformerModel, DocumentModelConfig)
