"""The Transformer (Vaswani et al. 2017) as a document model, and long and short term attention
(LST).

All attention of the Transformer sees the whole instance. The sentences of an instance
(``--instances``) decide between three systems: the Transformer on sentences, concatenation with k
sentences of context (Tiedemann and Scherrer 2017), and the Transformer over documents. It computes
the same as ``--arch gtransformer --doc-mode full``, with the same parameters.
"""

from dataclasses import dataclass

from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence, Scope
from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.models.common.model import DocumentModel, register

WHOLE = ((ByDocument(),),)  # one module with one scope


@register("doc_transformer", DocumentModelConfig)
class InstanceTransformerModel(DocumentModel):
    """Self- and cross-attention over the instance in every layer."""

    self_scopes = WHOLE  # of self-attention

    @classmethod
    def cross_scopes(cls, cfg: DocumentModelConfig) -> tuple[tuple[Scope, ...], ...]:
        """Return the scopes of cross-attention."""
        return WHOLE

    @classmethod
    def encoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        return [(AttentionBlock("self_attn", cls.self_scopes),)] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        self_attention = AttentionBlock("self_attn", cls.self_scopes)
        cross_attention = AttentionBlock("encoder_attn", cls.cross_scopes(cfg), memory="source")
        return [(self_attention, cross_attention)] * cfg.decoder_layers


@dataclass
class LstTransformerConfig(DocumentModelConfig):
    """A document model, and how far its cross-attention sees."""

    translation_locality: bool = option(
        False,
        "cross-attention sees only the source of the same sentence, not the whole document as in "
        "the paper",
    )


@register("lst_transformer", LstTransformerConfig)
class LstTransformerModel(InstanceTransformerModel):
    """LST attention (Zhang et al. 2020 b, as in "Improving Long Context Document-Level Machine
    Translation", 3.2).

    Self-attention is computed twice, within the sentence and over the whole document. The two
    context vectors are concatenated before one linear layer. The papers do not say in which layers,
    and with which projections. Here it is in all layers, with the same queries, keys and values:
    the 51 million parameters of all systems there leave no room for a second set.
    """

    # One module with two scopes: the same queries, keys and values, outputs concatenated.
    self_scopes = ((BySentence(), ByDocument()),)

    @classmethod
    def cross_scopes(cls, cfg: LstTransformerConfig) -> tuple[tuple[Scope, ...], ...]:
        """Return the whole document, or with ``--translation-locality`` the sentence."""
        return ((BySentence(),),) if cfg.translation_locality else WHOLE
