"""The encoder: group self-attention in every layer, combined attention on the top ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from fairseq.models import FairseqEncoder
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gtransformer.models.gtransformer.config import GTransformerConfig
from gtransformer.models.gtransformer.embedding import DocumentEmbedding
from gtransformer.models.gtransformer.layers import EncoderLayer
from gtransformer.models.gtransformer.reach import attention_kinds
from gtransformer.modules.ragged import Ragged


@dataclass
class Memory:
    """Encoder output that the rows of a beam share.

    states (N, channels) ragged with ``layout``; rows (r,) int64 says which document each decoder row translates, None
    stands for one row a document, in order.
    """

    states: Tensor
    layout: Ragged
    rows: Tensor | None = None

    def reorder(self, order: Tensor) -> Memory:
        """Rows picked by ``order``; the states themselves are neither copied nor moved."""
        return replace(self, rows=order if self.rows is None else self.rows.index_select(0, order))

    def expanded(self) -> Memory:
        """The same with one document a row, copied as often as it is used."""
        if self.rows is None:
            return self
        padded = self.layout.pad(self.states).index_select(0, self.rows)
        real = self.layout.pad(torch.ones_like(self.states[:, 0], dtype=torch.bool)).index_select(0, self.rows)
        tags = self.layout.pad(torch.from_numpy(self.layout.tag).to(self.states.device)).index_select(0, self.rows)
        layout = Ragged(real, tags)
        return Memory(layout.pack(padded), layout)


class GTransformerEncoder(DocumentEmbedding, FairseqEncoder):
    """Encodes whole documents (Bao et al. 2021, section 4.1 "Encoder" and 4.2).

    Args:
        cfg: the model's configuration.
        dictionary: source dictionary, ending in the language symbols and ``<mask>``.
        embed_tokens: token embedding, (vocabulary, encoder_embed_dim).
    """

    def __init__(self, cfg: GTransformerConfig, dictionary, embed_tokens: nn.Embedding):
        super().__init__(dictionary)
        self.init_embedding(cfg, dictionary, embed_tokens, cfg.encoder_learned_pos, cfg.max_source_positions)
        self.kinds = attention_kinds(cfg, "encoder")
        self.layers = nn.ModuleList(EncoderLayer(cfg, kind) for kind in self.kinds)
        self.layer_norm = nn.LayerNorm(cfg.encoder_embed_dim) if cfg.encoder_normalize_before else None

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused) -> dict[str, list]:
        """Encode a batch of documents.

        Args:
            src_tokens: (batch, length) int64, padded on either side.
            src_lengths: unused; the tokens say it.

        Returns:
            fairseq's dictionary: ``encoder_out`` [(length, batch, channels)], ``encoder_padding_mask``
            [(batch, length), True at padding], ``encoder_tags`` [(batch, length)], and ``memory`` [Memory], the ragged
            states that our decoder reads.
        """
        layout = self.layout(src_tokens)
        with self.autocast():
            x = self._encode(src_tokens, layout)
        return {
            "encoder_out": [layout.pad(x).transpose(0, 1)],
            "encoder_padding_mask": [src_tokens.eq(self.padding)],
            "encoder_tags": [layout.tags],
            "memory": [Memory(x, layout)],
        }

    def _encode(self, src_tokens: Tensor, layout: Ragged) -> Tensor:
        x = self.embed(layout.pack(src_tokens), layout.offset, layout.length)
        patterns = self.patterns(layout, layout, self.kinds, causal=False)
        for layer in self.layers:
            if self.cfg.checkpoint_activations and self.training:
                x = checkpoint(layer, x, patterns, use_reentrant=False)
            else:
                x = layer(x, patterns)
        return x if self.layer_norm is None else self.layer_norm(x)

    def reorder_encoder_out(self, encoder_out: dict[str, list], new_order: Tensor) -> dict[str, list]:
        """Let decoder rows point at documents; only ``memory`` remains, since nothing else is read while decoding."""
        return {"memory": [encoder_out["memory"][0].reorder(new_order)]}

    def max_positions(self) -> int:
        """Longest document in tokens."""
        return min(self.cfg.max_source_positions, self.positions())
