"""The context of a sentence: previous source sentences, in an encoder of their own (Zhang et al. 2018, section 2.2)."""

from __future__ import annotations

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from gtransformer.data.group_tags import group_tags, kept_alone, last_sentences
from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.layer import Layer, LayerStack, View
from gtransformer.models.common.memory import Memory
from gtransformer.models.document_transformer.config import ENCODER, ITSELF, DocumentTransformerConfig
from gtransformer.models.transformer.model import WHOLE
from gtransformer.modules.ragged import Ragged

CONTEXT = "context"  # the memory's name


class ContextEncoder(LayerStack):
    """Layers over the context alone (Eq. 5 to 9); as wide as the encoder's."""

    def __init__(self, cfg: DocumentTransformerConfig):
        super().__init__()
        self.cfg = cfg
        block = AttentionBlock("self_attn", WHOLE)
        self.layers = nn.ModuleList(Layer(cfg, "encoder", (block,)) for _ in range(cfg.context_layers))
        self.layer_norm = nn.LayerNorm(cfg.encoder_embed_dim) if cfg.encoder_normalize_before else None


class BesideEncoder(DocumentEncoder):
    """Encodes the last sentence of each source, and the words of those before it beside it.

    The context is their words without marks, one ``</s>`` at its end, positions from 0 over the whole. Embeddings are
    the encoder's, without dropout. Arguments are those of ``DocumentEncoder``.
    """

    def __init__(self, cfg: DocumentTransformerConfig, dictionary: Dictionary, embed_tokens: nn.Embedding, blocks):
        super().__init__(cfg, dictionary, embed_tokens, blocks)
        self.context_encoder = ContextEncoder(cfg)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused) -> dict[str, list]:
        """As ``DocumentEncoder.forward``, of the last sentence; its ``memory`` has the context beside it."""
        current, context, tags = split_context(
            src_tokens, self.bos, self.eos, self.padding, str(self.cfg.context_of_first) == ITSELF
        )
        with self.autocast():
            beside = {CONTEXT: self._encode_context(context, tags)}
            found = self.encode(current, beside)
        if str(self.cfg.context_in) != ENCODER:
            found["memory"][0].beside = beside
        return found

    def _encode_context(self, tokens: Tensor, tags: Tensor) -> Memory:
        layout = Ragged(tokens.ne(self.padding), tags)
        x = self.embedded(layout.pack(tokens), layout.offset, layout.length)
        view = View(str(self.cfg.group_attention), layout, {})
        return Memory(self.context_encoder.run_layers(x, view), layout)


def split_context(tokens: Tensor, bos: int, eos: int, padding: int, itself: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The last sentence of each row, and its context.

    Args:
        tokens: (batch, length) int64, ``<s> a b </s> <s> c </s>``, padded on either side.
        itself: a single sentence is its own context.

    Returns:
        current (batch, longest), context and its tags (batch, longest), int64, padded on the right. Tags count the
        sentences of the context; ``</s>`` at its end is of the last one.
    """
    tags, last = group_tags(tokens, bos, padding), last_sentences(tokens, bos, padding)
    before = tags.amax(dim=1, keepdim=True) - 1
    chosen = ~last if not itself else ~last | before.eq(0)
    words = chosen & tokens.ne(bos) & tokens.ne(eos) & tokens.ne(padding)
    words = torch.cat([words, torch.ones_like(before, dtype=torch.bool)], dim=1)
    context = torch.cat([tokens, torch.full_like(before, eos)], dim=1)
    tags = torch.cat([tags, before.clamp(min=1)], dim=1)
    return kept_alone(tokens, last, padding), kept_alone(context, words, padding), kept_alone(tags, words, 0)
