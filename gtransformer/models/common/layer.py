"""A layer of encoder or decoder, its declared attention blocks and feed-forward; stacks of
layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gtransformer.models.common.blocks import AttentionBlock, ByDocument, Scope
from gtransformer.models.common.config import ACTIVATIONS, DocumentModelConfig
from gtransformer.modules.attention import Gate, MultiheadAttention, Pattern, ResidualGate, mixed
from gtransformer.modules.kernels import Linear, dropout, for_products
from gtransformer.modules.packed import PackedPattern
from gtransformer.modules.ragged import Memory, Ragged, on_device
from gtransformer.modules.reach import Reach
from gtransformer.modules.ssru import Recurrence, Ssru


class View:
    """The layouts and memories of one pass over a batch, for the blocks of all layers: each pattern
    is made once.

    Decoding has a view of its own (decoding/view.py), so that layers are written once.

    Args:
        engine: makes the pattern of a reach.
        layout: of the queries.
        memories: further states to attend to, by name.
        causal: whether no query of self-attention sees later keys.
    """

    def __init__(
        self,
        engine: Callable[[Reach], Pattern],
        layout: Ragged,
        memories: dict[str, Memory],
        causal: bool,
    ):
        self.engine, self.layout, self.memories, self.causal = engine, layout, memories, causal
        # Layers with the same scope see the same keys. Patterns cost time on the host, so all
        # layers share them.
        self._patterns: dict[tuple[Scope, str | None], Pattern] = {}
        self._recurrences: dict[Scope, Recurrence] = {}

    def pattern(self, block: AttentionBlock, scope: Scope) -> Pattern:
        """Return the pattern of a block's scope."""
        key = scope, block.memory
        if key not in self._patterns:
            if block.memory is None:
                reach = scope.reach(self.layout, self.layout, self.causal)
            else:
                reach = scope.reach(self.layout, self.memories[block.memory].layout, False)
            self._patterns[key] = self.engine(reach)
        return self._patterns[key]

    def recurrence(self, scope: Scope) -> Recurrence:
        """Return the recurrence of an SSRU within the sentences or documents of a scope."""
        if scope not in self._recurrences:
            begins = self.layout.doc_starts[:-1] if scope == ByDocument() else self.layout.begins
            first = np.zeros(self.layout.total, dtype=bool)
            first[begins[begins < self.layout.total]] = True
            longest = np.diff(np.flatnonzero(first), append=self.layout.total).max(initial=1)
            self._recurrences[scope] = Recurrence(
                on_device(first, self.layout.device), int(longest)
            )
        return self._recurrences[scope]


class Layer(nn.Module):
    """Attention blocks and a feed-forward block, each with residual and norm (Vaswani et al. 2017,
    section 3.1).

    Args:
        cfg: the model's configuration.
        side: "encoder" or "decoder", whose sizes the layer has.
        blocks: the attention, in this order; those with a memory have keys of ``memory_channels``.
        memory_channels: default: the width of the layer.
    """

    def __init__(
        self,
        cfg: DocumentModelConfig,
        side: str,
        blocks: tuple[AttentionBlock, ...],
        memory_channels: int | None = None,
    ):
        super().__init__()
        self.blocks = blocks
        channels = getattr(cfg, f"{side}_embed_dim")
        ffn_channels = getattr(cfg, f"{side}_ffn_embed_dim")
        self.norm_before = getattr(cfg, f"{side}_normalize_before")
        self.dropout, self.activation_dropout = cfg.dropout, cfg.activation_dropout
        self.activation = ACTIVATIONS[cfg.activation_fn]
        self.fc1 = Linear(channels, ffn_channels)
        self.fc2 = Linear(ffn_channels, channels)
        self.final_layer_norm = nn.LayerNorm(channels, cfg.layer_norm_eps)
        heads = getattr(cfg, f"{side}_attention_heads")
        for block in blocks:
            keys = None if block.memory is None else memory_channels
            for name, scopes in zip(block.modules, block.scopes, strict=True):
                if block.recurrent and name == block.modules[0]:
                    self.add_module(name, Ssru(channels))
                    continue
                # Positions restart at each sentence then; only attention across sentences needs
                # their numbers.
                numbered = block.numbered and scopes == (ByDocument(),)
                module = MultiheadAttention(
                    channels,
                    heads,
                    cfg.attention_dropout,
                    keys,
                    len(scopes),
                    block.relative,
                    numbered,
                )
                self.add_module(name, module)
            if block.gate is not None:
                gate = ResidualGate(channels) if block.gated else Gate(channels, block.gate_bias)
                self.add_module(block.gate, gate)
            self.add_module(block.norm, nn.LayerNorm(channels, cfg.layer_norm_eps))

    def forward(self, x: Tensor, view: View) -> Tensor:
        """Compute x (N, channels) ragged -> (N, channels)."""
        for block in self.blocks:
            norm = getattr(self, block.norm)
            # Pre-norm normalises a block's input, post-norm (the paper) its result.
            h = norm(x) if self.norm_before else x
            context = self.attend(block, h, view)
            if block.gated:
                # Eq. 21 of Zhang et al. (2018), lambda H + (1 - lambda) C, without dropout on C.
                # If norms precede the blocks, the state is mixed, and the gate reads what attention
                # reads (our choice; the paper has norms after the blocks).
                gate = getattr(self, block.gate)(h, context)
                x = torch.lerp(context.to(x.dtype), x, gate.to(x.dtype))
            else:
                x = self.add(x, context)
            x = x if self.norm_before else norm(x)
        h = self.final_layer_norm(x) if self.norm_before else x
        x = self.add(x, self.feed_forward(h))
        return x if self.norm_before else self.final_layer_norm(x)

    def attend(self, block: AttentionBlock, h: Tensor, view: View) -> Tensor:
        """Compute a block's attention, without residual and norm; with a gate, Eq. 10 of Bao et al.
        (2021).
        """
        x = for_products(h)
        keys = x if block.memory is None else for_products(view.memories[block.memory].states)
        contexts = []
        for name, scopes in zip(block.modules, block.scopes, strict=True):
            module = getattr(self, name)
            if isinstance(module, Ssru):
                contexts.append(module(h, view.recurrence(scopes[0])))
            else:
                contexts.append(module(x, keys, *map(partial(view.pattern, block), scopes)))
        # One module: no gate, as on the lower layers.
        if len(contexts) == 1:
            return contexts[0]
        return mixed(getattr(self, block.gate)(torch.cat(contexts, dim=-1)), *contexts)

    def feed_forward(self, h: Tensor) -> Tensor:
        """Compute the position-wise block without residual and norm, (..., channels) -> (...,
        channels).
        """
        h = self.activation(self.fc1(h))
        return self.fc2(dropout(h, self.activation_dropout, self.training))

    def add(self, x: Tensor, result: Tensor) -> Tensor:
        """Return the residual connection around a block, x + dropout(result)."""
        return x + dropout(result, self.dropout, self.training)


class LayerStack(nn.Module):
    """Layers of one side, with a final norm if norms precede the blocks."""

    engine: Callable[[Reach], Pattern] = PackedPattern  # of attention

    def init_layers(
        self,
        cfg: DocumentModelConfig,
        side: str,
        blocks: Iterable[tuple[AttentionBlock, ...]],
        memory_channels: int | None = None,
    ) -> None:
        """Make the layers with these blocks each, lowest first; the other arguments are those of
        ``Layer``.
        """
        self.cfg, self.causal = cfg, side == "decoder"
        self.layers = nn.ModuleList(Layer(cfg, side, each, memory_channels) for each in blocks)
        self.layer_norm: nn.Module = nn.Identity()
        # With norms before the blocks, nothing has normalised the result of the last one.
        if getattr(cfg, f"{side}_normalize_before"):
            self.layer_norm = nn.LayerNorm(getattr(cfg, f"{side}_embed_dim"), cfg.layer_norm_eps)

    def view(
        self, layout: Ragged, memories: dict[str, Memory] | None = None, kind: Callable = View
    ) -> View:
        """Return the view of one pass over queries of this layout; ``kind`` makes it, with the
        arguments of View.
        """
        return kind(self.engine, layout, memories or {}, self.causal)

    def run_layers(self, x: Tensor, view: View) -> Tensor:
        """Apply all layers and the final norm, (N, channels) -> (N, channels)."""
        return self.layer_norm(self.run_some(self.layers, x, view))

    def run_some(self, layers: Iterable[nn.Module], x: Tensor, view: View) -> Tensor:
        """Apply some of the layers, (N, channels) -> (N, channels)."""
        for layer in layers:
            # Computes the layer again in the backward pass and keeps only its input: less memory,
            # more time.
            if self.cfg.checkpoint_activations and self.training:
                x = checkpoint(layer, x, view, use_reentrant=False)
            else:
                x = layer(x, view)
        return x
