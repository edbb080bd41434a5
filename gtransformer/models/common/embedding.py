"""The common part of encoder and decoder: group tags, ragged layout and embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.group_tags import group_tags
from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.config import (
    BOTH_MARKS,
    DOCUMENT,
    SENTENCE,
    UNLIMITED_POSITIONS,
    DocumentModelConfig,
)
from gtransformer.models.common.layer import LayerStack
from gtransformer.modules.kernels import dropout
from gtransformer.modules.positions import LearnedPositions, SinusoidalPositions
from gtransformer.modules.ragged import Ragged

LEARNED_POSITIONS = 1024  # a table of learned positions needs a size; this is fairseq's default


class DocumentEmbedding(LayerStack):
    """A mixin for encoder and decoder (``side``); parameter names are the release's.

    Args:
        cfg: the model's configuration.
        dictionary: of the side, ending in the language symbols and ``<mask>``.
        embed_tokens: token embedding, (vocabulary, channels of the side).
        blocks: the attention of each layer, lowest first; a decoder's block with a memory reads
            ``source``, or an extra memory of the encoder's ``Memory``.
    """

    side = ""

    def __init__(
        self,
        cfg: DocumentModelConfig,
        dictionary: Vocabulary,
        embed_tokens: nn.Embedding,
        blocks: Sequence[tuple[AttentionBlock, ...]],
    ):
        super().__init__()
        self.dictionary = dictionary
        channels = embed_tokens.embedding_dim
        self.padding, self.bos, self.eos = dictionary.pad(), dictionary.bos(), dictionary.eos()
        # What layers see of ``<s>`` and ``</s>``.
        self.marks = str(getattr(cfg, "sentence_marks", BOTH_MARKS))
        self.embed_tokens = embed_tokens
        # Whether positions restart at each sentence.
        self.restarts = str(getattr(cfg, "positions", DOCUMENT)) == SENTENCE
        self.longest = (
            cfg.max_source_positions if self.side == "encoder" else cfg.max_target_positions
        )
        # Embeddings are drawn with variance 1 / channels, positions are about 1.
        self.embed_scale = 1.0 if cfg.no_scale_embedding else math.sqrt(channels)
        if cfg.no_token_positional_embeddings:
            self.embed_positions = None
        elif getattr(cfg, f"{self.side}_learned_pos"):
            table = self.longest if self.longest < UNLIMITED_POSITIONS else LEARNED_POSITIONS
            self.embed_positions = LearnedPositions(table, channels, self.padding)
        else:
            self.embed_positions = SinusoidalPositions(channels, self.padding, str(cfg.sinusoids))
        self.layernorm_embedding: nn.Module = nn.Identity()
        if cfg.layernorm_embedding:
            self.layernorm_embedding = nn.LayerNorm(channels, cfg.layer_norm_eps)
        # fairseq's and the release's checkpoints have it.
        self.register_buffer("version", torch.Tensor([3]))
        self.init_layers(cfg, self.side, blocks, cfg.encoder_embed_dim)

    def autocast(self) -> AbstractContextManager:
        """Return the context of ``--autocast``, for the device of the parameters."""
        name = str(self.cfg.autocast)
        if name == "none":
            return nullcontext()
        return torch.autocast(self.embed_tokens.weight.device.type, dtype=getattr(torch, name))

    def tags(self, tokens: Tensor) -> Tensor:
        """Return group tags of (batch, length) tokens."""
        return group_tags(tokens, self.bos, self.padding)

    def layout(self, tokens: Tensor) -> Ragged:
        """Return the ragged layout of a padded batch of tokens."""
        return Ragged(tokens.ne(self.padding), self.tags(tokens))

    def embed_batch(
        self, tokens: Tensor, layout: Ragged, per_document: dict[str, Tensor]
    ) -> Tensor:
        """Return the first layer's input (N, channels) of (batch, length) tokens; ``per_document``
        as in ``Memory``.
        """
        return self.embed(layout.pack(tokens), *layout.positions(self.restarts))

    def embed(self, tokens: Tensor, offset: Tensor, longest: int) -> Tensor:
        """Embed tokens (n,) at positions offset (n,), all below ``longest`` -> (n, channels) with
        dropout.
        """
        x = self.add_positions(self.words(tokens), offset, longest)
        return dropout(x, self.cfg.dropout, self.training)

    def words(self, tokens: Tensor) -> Tensor:
        """Embed tokens (n,) -> (n, channels), scaled, without positions."""
        return self.embed_scale * self.embed_tokens(tokens)

    def add_positions(
        self, x: Tensor, offset: Tensor, longest: int, more: Tensor | None = None
    ) -> Tensor:
        """Add positions and ``more`` (n, channels) to x (n, channels), then normalise, each if
        there is such.
        """
        if self.embed_positions is not None:
            x = x + self.embed_positions(offset, longest).to(x.dtype)
        if more is not None:
            x = x + more
        return self.layernorm_embedding(x)

    def max_positions(self) -> int:
        """Return the longest document in tokens for fairseq: at most ``--max-source-positions`` and
        so on.
        """
        return self.positions() if self.restarts else min(self.longest, self.positions())

    def positions(self) -> int:
        """Return the number of positions for a document; it is unlimited if positions restart at
        each sentence.
        """
        return UNLIMITED_POSITIONS if self.restarts else self.sentence_positions()

    def sentence_positions(self) -> int:
        """Return the number of positions for a sentence: without learned positions it is
        unlimited.
        """
        table = self.embed_positions
        return table.positions if isinstance(table, LearnedPositions) else UNLIMITED_POSITIONS
