"""The Transformer (Vaswani et al. 2017) as a document model: nothing is local, all attention sees the whole instance.

What is one system in the papers are three here by what stands together (``--instances``): the Transformer on sentences,
concatenation with k sentences of context (Tiedemann and Scherrer 2017), and the Transformer over documents. It computes
what ``--arch gtransformer --doc-mode full`` computes, with the same parameters.
"""

from __future__ import annotations

from fairseq.models import register_model

from gtransformer.models.common.architectures import register_sizes
from gtransformer.models.common.blocks import AttentionBlock, ByDocument
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel

NAME = "doc_transformer"
WHOLE = ((ByDocument(),),)


@register_model(NAME, dataclass=DocumentModelConfig)
class InstanceTransformerModel(DocumentModel):
    """Self- and cross-attention over the instance in every layer."""

    @classmethod
    def encoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        return [(AttentionBlock("self_attn", WHOLE),)] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        own = AttentionBlock("self_attn", WHOLE, causal=True)
        return [(own, AttentionBlock("encoder_attn", WHOLE, memory="source"))] * cfg.decoder_layers


register_sizes(NAME, InstanceTransformerModel, DocumentModelConfig)
