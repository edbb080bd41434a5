"""The decoder: group self- and cross-attention in every layer, combined attention on the top ones."""

from __future__ import annotations

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gtransformer.models.gtransformer.config import GTransformerConfig
from gtransformer.models.gtransformer.embedding import DocumentEmbedding
from gtransformer.models.gtransformer.encoder import Memory
from gtransformer.models.gtransformer.incremental import DecoderState
from gtransformer.models.gtransformer.layers import DecoderLayer
from gtransformer.models.gtransformer.reach import attention_kinds
from gtransformer.modules.linear import Linear, has_bfloat16
from gtransformer.modules.ragged import Ragged


class GTransformerDecoder(DocumentEmbedding, FairseqIncrementalDecoder):
    """Predicts whole documents (Bao et al. 2021, section 4.1 "Decoder" and 4.2).

    Args:
        cfg: the model's configuration.
        dictionary: target dictionary, ending in the language symbols and ``<mask>``.
        embed_tokens: token embedding, (vocabulary, decoder_embed_dim).
    """

    def __init__(self, cfg: GTransformerConfig, dictionary, embed_tokens: nn.Embedding):
        super().__init__(dictionary)
        self.init_embedding(cfg, dictionary, embed_tokens, cfg.decoder_learned_pos, cfg.max_target_positions)
        self.self_kinds, self.cross_kinds = attention_kinds(cfg, "decoder"), attention_kinds(cfg, "cross")
        self.layers = nn.ModuleList(
            DecoderLayer(cfg, *kinds) for kinds in zip(self.self_kinds, self.cross_kinds, strict=True)
        )
        self.layer_norm = nn.LayerNorm(cfg.decoder_embed_dim) if cfg.decoder_normalize_before else None
        self.output_projection = Linear(cfg.decoder_embed_dim, len(dictionary), bias=False)
        if cfg.share_decoder_input_output_embed or cfg.share_all_embeddings:
            self.output_projection.weight = embed_tokens.weight
        else:
            nn.init.normal_(self.output_projection.weight, std=cfg.decoder_embed_dim**-0.5)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list] | None = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        ragged: bool = False,
        **unused,
    ) -> tuple[Tensor, dict]:
        """Predict the next token at every position, or at the last one when ``incremental_state`` is given.

        Args:
            prev_output_tokens: (batch, length) int64, padded on either side; with an incremental state (rows, length),
                unpadded prefixes whose last token is new.
            encoder_out: the encoder's output.
            incremental_state: fairseq's per-model dictionary; this decoder keeps its caches in it.
            features_only: top states instead of logits.
            ragged: top states of the real tokens only, (tokens, channels), and their ``layout`` among the extras.

        Returns:
            logits (batch, length, vocabulary), zero at padding, or (rows, 1, vocabulary); and a dictionary whose
            ``attn`` is [None].
        """
        memory: Memory = encoder_out["memory"][0]
        if incremental_state is not None:
            x = self._step(prev_output_tokens, memory, incremental_state)
            x = x if features_only else incremental_state["gtransformer"].logits(x)
            return x.unsqueeze(1), {"attn": [None]}
        with self.autocast():
            layout = self.layout(prev_output_tokens)
            x = self.extract_ragged(prev_output_tokens, layout, memory.expanded())
            if ragged:
                return x, {"attn": [None], "layout": layout}
            return layout.pad(x if features_only else self.output_layer(x)), {"attn": [None]}

    def extract_ragged(self, prev_output_tokens: Tensor, layout: Ragged, memory: Memory) -> Tensor:
        """Top states of all real tokens, (N, channels)."""
        x = self.embed(layout.pack(prev_output_tokens), layout.offset, layout.length)
        own = self.patterns(layout, layout, self.self_kinds, causal=True)
        cross = self.patterns(layout, memory.layout, self.cross_kinds, causal=False)
        for layer in self.layers:
            if self.cfg.checkpoint_activations and self.training:
                x = checkpoint(layer, x, memory.states, own, cross, use_reentrant=False)
            else:
                x = layer(x, memory.states, own, cross)
        return x if self.layer_norm is None else self.layer_norm(x)

    def _step(self, tokens: Tensor, memory: Memory, incremental_state: dict) -> Tensor:
        """tokens (rows, length) -> top states of the last token, (rows, channels)."""
        state: DecoderState | None = incremental_state.get("gtransformer")
        if state is None:
            state = incremental_state["gtransformer"] = self.begin(memory, len(tokens))
        x = None
        for step in range(state.steps, tokens.shape[1]):
            tags = tokens[:, : step + 1].eq(self.bos).sum(dim=1)
            shape = (-1, state.beam)
            last = tokens[:, step]
            x = state.step(last, last.eq(self.bos).view(shape).cpu().numpy(), tags.view(shape).cpu().numpy())
        if x is None:
            raise ValueError(f"no new token: the caches already hold {state.steps}, the prefix has {tokens.shape[1]}")
        return x

    def begin(self, memory: Memory, rows: int) -> DecoderState:
        """The state from which ``rows`` rows are decoded token by token.

        With ``--autocast``, weights are converted once; bfloat16 on a CPU without instructions for it is not used.
        """
        name = str(self.cfg.autocast)
        weights = self.embed_tokens.weight
        usable = name != "none" and weights.dtype == torch.float32
        if weights.device.type == "cpu":
            usable = usable and name == "bfloat16" and has_bfloat16()
        return DecoderState(self, memory, rows, getattr(torch, name) if usable else None)

    def output_layer(self, features: Tensor, **unused) -> Tensor:
        """(..., channels) -> (..., vocabulary) logits."""
        return self.output_projection(features)

    def reorder_incremental_state_scripting(self, incremental_state: dict, new_order: Tensor) -> None:
        """Let row i continue what row ``new_order[i]`` was (called by fairseq's beam search)."""
        state: DecoderState | None = incremental_state.get("gtransformer")
        if state is not None:
            state.reorder(new_order)

    reorder_incremental_state = reorder_incremental_state_scripting

    def max_positions(self) -> int:
        """Longest document in tokens."""
        return min(self.cfg.max_target_positions, self.positions())
