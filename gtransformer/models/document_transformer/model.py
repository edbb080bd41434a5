"""The Document Transformer (Zhang et al. 2018): a sentence model that attends to previous source sentences.

Instances are ``--instances current --context-sentences K``: K previous sentences and the current one on the source
side, the current one on the target side.
"""

from __future__ import annotations

from fairseq.models import register_model

from gtransformer.errors import UserError
from gtransformer.models.common.architectures import register_sizes
from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.model import DocumentModel, Needs, check_choices
from gtransformer.models.document_transformer.config import (
    DECODER,
    ENCODER,
    FIRST,
    GATE,
    JOINS,
    PLACES,
    DocumentTransformerConfig,
)
from gtransformer.models.document_transformer.context import CONTEXT, BesideEncoder
from gtransformer.models.transformer.model import WHOLE

NAME = "document_transformer"


@register_model(NAME, dataclass=DocumentTransformerConfig)
class DocumentTransformerModel(DocumentModel):
    """Self-attention, context attention, in the decoder cross-attention, feed-forward (Eq. 11 to 18)."""

    encoder_class = BesideEncoder

    @classmethod
    def needs_of(cls, cfg) -> Needs:
        """Previous sentences in front of the one that it translates."""
        return Needs(last_sentence_only=True)

    @classmethod
    def check(cls, cfg: DocumentTransformerConfig) -> None:
        """UserError for a context encoder without layers, and for unknown names."""
        if cfg.context_layers < 1:
            raise UserError(f"--context-layers {cfg.context_layers}: give at least 1")
        check_choices(cfg, context_in=PLACES, context_join=JOINS, context_of_first=FIRST)

    @classmethod
    def encoder_blocks(cls, cfg: DocumentTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        return [(AttentionBlock("self_attn", WHOLE), *_context(cfg, DECODER))] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg: DocumentTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        own = AttentionBlock("self_attn", WHOLE, causal=True)
        cross = AttentionBlock("encoder_attn", WHOLE, memory="source")
        return [(own, *_context(cfg, ENCODER), cross)] * cfg.decoder_layers


def _context(cfg: DocumentTransformerConfig, other: str) -> list[AttentionBlock]:
    """Context attention, unless the ``other`` side alone has it."""
    if str(cfg.context_in) == other:
        return []
    return [AttentionBlock("context_attn", WHOLE, memory=CONTEXT, gated=str(cfg.context_join) == GATE)]


register_sizes(NAME, DocumentTransformerModel, DocumentTransformerConfig)
