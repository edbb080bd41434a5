"""Encoder and decoder layers with group attention and, on the top layers, combined attention (section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq import utils
from torch import Tensor, nn

from gtransformer.models.gtransformer.config import GTransformerConfig
from gtransformer.models.gtransformer.reach import COMBINED, GLOBAL
from gtransformer.modules.attention import MultiheadAttention, Pattern
from gtransformer.modules.combine import gated_sum, make_gate
from gtransformer.modules.dropout import dropout
from gtransformer.modules.linear import Linear


@dataclass
class Patterns:
    """Who sees whom by group and over the whole document, as far as any layer asks for it."""

    local: Pattern | None
    global_: Pattern | None


class Layer(nn.Module):
    """What encoder and decoder layers share: combined attention, the feed-forward block, residuals and norms.

    Parameter names are the release's: ``{name}_local``, ``{name}_global``, ``{name}_gate``, ``{name}_layer_norm``.
    Attention that is alone is ``{name}_local``, over the document, too; ``kinds`` says by name what it is.
    """

    def __init__(self, cfg: GTransformerConfig, channels: int, ffn_channels: int, norm_before: bool):
        super().__init__()
        self.norm_before = norm_before
        self.dropout, self.activation_dropout = cfg.dropout, cfg.activation_dropout
        self.activation = utils.get_activation_fn(str(cfg.activation_fn))
        self.fc1 = Linear(channels, ffn_channels)
        self.fc2 = Linear(ffn_channels, channels)
        self.final_layer_norm = nn.LayerNorm(channels)
        self.kinds: dict[str, str] = {}

    def add_attention(
        self, name: str, cfg: GTransformerConfig, channels: int, heads: int, kind: str, memory: int | None = None
    ) -> None:
        """Make the modules of one attention block; ``kind`` COMBINED adds global attention and the gate."""

        def make() -> MultiheadAttention:
            return MultiheadAttention(channels, heads, cfg.attention_dropout, memory)

        combined = kind == COMBINED
        self.kinds[name] = kind
        self.add_module(f"{name}_local", make())
        self.add_module(f"{name}_global", make() if combined else None)
        self.add_module(f"{name}_gate", make_gate(channels) if combined else None)
        self.add_module(f"{name}_layer_norm", nn.LayerNorm(channels))

    def combine(self, name: str, local: Tensor, global_: Tensor | None) -> Tensor:
        """Eq. 10 where the layer has a gate, else the one attention there is."""
        return local if global_ is None else gated_sum(getattr(self, f"{name}_gate"), local, global_)

    def attend(self, name: str, x: Tensor, memory: Tensor | None, patterns: Patterns) -> Tensor:
        """One attention block over ragged states, with residual and norm; ``memory`` None means self-attention."""
        first = patterns.global_ if self.kinds[name] == GLOBAL else patterns.local

        def attention(h: Tensor) -> Tensor:
            keys = h if memory is None else memory
            local = getattr(self, f"{name}_local")(h, keys, first)
            module = getattr(self, f"{name}_global")
            return self.combine(name, local, module(h, keys, patterns.global_) if module is not None else None)

        return self.residual(x, attention, getattr(self, f"{name}_layer_norm"))

    def residual(self, x: Tensor, block, norm: nn.LayerNorm) -> Tensor:
        """x + dropout(block(x)), normalised after it (as in the paper) or before the block."""
        h = block(norm(x) if self.norm_before else x)
        x = x + dropout(h, self.dropout, self.training)
        return x if self.norm_before else norm(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The position-wise block, (..., channels) -> (..., channels)."""

        def block(h: Tensor) -> Tensor:
            h = dropout(self.activation(self.fc1(h)), self.activation_dropout, self.training)
            return self.fc2(h)

        return self.residual(x, block, self.final_layer_norm)


class EncoderLayer(Layer):
    """Self-attention of a ``kind`` (group: Eq. 8 with G_Q = G_K = G_X), then feed-forward."""

    def __init__(self, cfg: GTransformerConfig, kind: str):
        super().__init__(cfg, cfg.encoder_embed_dim, cfg.encoder_ffn_embed_dim, cfg.encoder_normalize_before)
        self.add_attention("self_attn", cfg, cfg.encoder_embed_dim, cfg.encoder_attention_heads, kind)

    def forward(self, x: Tensor, patterns: Patterns) -> Tensor:
        """x (N, channels) ragged -> (N, channels)."""
        return self.feed_forward(self.attend("self_attn", x, None, patterns))


class DecoderLayer(Layer):
    """Self-attention (group: G_Q = G_K = G_Y), cross-attention (group: G_Q = G_Y, G_K = G_X), feed-forward."""

    def __init__(self, cfg: GTransformerConfig, self_kind: str, cross_kind: str):
        channels, heads = cfg.decoder_embed_dim, cfg.decoder_attention_heads
        super().__init__(cfg, channels, cfg.decoder_ffn_embed_dim, cfg.decoder_normalize_before)
        self.add_attention("self_attn", cfg, channels, heads, self_kind)
        self.add_attention("encoder_attn", cfg, channels, heads, cross_kind, cfg.encoder_embed_dim)

    def forward(self, x: Tensor, memory: Tensor, self_patterns: Patterns, cross_patterns: Patterns) -> Tensor:
        """x (Nt, channels) and memory (Ns, encoder channels), both ragged -> (Nt, channels)."""
        x = self.attend("self_attn", x, None, self_patterns)
        x = self.attend("encoder_attn", x, memory, cross_patterns)
        return self.feed_forward(x)
