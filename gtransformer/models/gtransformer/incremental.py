"""Caches for decoding token by token.

Group attention never looks behind the ``<s>`` that opened a sentence, so its cache is emptied there and its size is a
sentence, not a document. Only global self-attention keeps the whole prefix. Keys and values of cross-attention are
projected once per document and shared by its beams; reordering beams touches neither.

A language symbol behind the first position, which would see the whole prefix in group attention too, cannot occur: it
ends a document, and the search never continues one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.dense import attention_weights

if TYPE_CHECKING:
    from gtransformer.models.gtransformer.decoder import GTransformerDecoder
    from gtransformer.models.gtransformer.encoder import Memory
    from gtransformer.models.gtransformer.layers import DecoderLayer

FIRST_CAPACITY = 64


class GrowingCache:
    """Keys and values of self-attention, (rows, capacity, heads, dim) each; the capacity doubles when it is full."""

    def __init__(self):
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def write(self, k: Tensor, v: Tensor, position: Tensor, longest: int) -> None:
        """Store k, v (rows, heads, dim) at ``position`` (rows,), all below ``longest``."""
        if self.keys is None or self.keys.shape[1] < longest:
            self._grow(k, longest)
        rows = torch.arange(k.shape[0], device=k.device)
        self.keys[rows, position] = k
        self.values[rows, position] = v

    def _grow(self, like: Tensor, longest: int) -> None:
        capacity = max(FIRST_CAPACITY, 1 << (longest - 1).bit_length())
        old = (self.keys, self.values)
        shape = (like.shape[0], capacity, *like.shape[1:])
        self.keys, self.values = like.new_zeros(shape), like.new_zeros(shape)
        if old[0] is not None:
            self.keys[:, : old[0].shape[1]] = old[0]
            self.values[:, : old[1].shape[1]] = old[1]

    def reorder(self, order: Tensor) -> None:
        """Rows picked by ``order``."""
        if self.keys is not None:
            self.keys = self.keys.index_select(0, order)
            self.values = self.values.index_select(0, order)


class SourceSpans:
    """Where each sentence of each document lies in the source tokens sorted by (document, tag).

    ``sort`` (N,) int64; starts and lengths (documents, sentences + 1): column 0 is the whole document, which a query
    with tag 0 sees; column k is sentence k, of length 0 where there is none.
    """

    def __init__(self, memory: Memory):
        layout = memory.layout
        order = np.argsort((layout.doc.astype(np.int64) << 32) + layout.tag, kind="stable")
        doc, tag = layout.doc[order], layout.tag[order]
        sentences = int(tag.max(initial=0))
        starts = np.zeros((layout.batch, sentences + 2), dtype=np.int64)
        lengths = np.zeros_like(starts)
        starts[:, 0], lengths[:, 0] = layout.doc_starts[:-1], layout.doc_lengths
        real = np.flatnonzero(tag > 0)
        np.add.at(lengths, (doc[real], tag[real]), 1)
        starts[doc[real[::-1]], tag[real[::-1]]] = real[::-1]  # the first token of a sentence is written last
        device = memory.states.device
        self.sort = torch.from_numpy(order).to(device)
        self.starts, self.lengths = torch.from_numpy(starts).to(device), torch.from_numpy(lengths).to(device)

    def lookup(self, rows: Tensor, tags: Tensor) -> tuple[Tensor, Tensor]:
        """Documents (r,) and tags (r,) -> key index (r, longest) and real (r, longest), True at real keys."""
        tags = tags.clamp(max=self.starts.shape[1] - 1)  # the last column is empty: no such sentence
        start, length = self.starts[rows, tags], self.lengths[rows, tags]
        column = torch.arange(max(1, int(length.max())), device=start.device)
        real = column < length.unsqueeze(1)
        return torch.where(real, start.unsqueeze(1) + column, 0), real


class DecoderState:
    """Everything that decoding remembers of the prefixes of its rows."""

    def __init__(self, decoder: GTransformerDecoder, memory: Memory):
        self.grouped = decoder.cfg.doc_mode == "partial"
        self.steps = 0  # tokens of every row already in the caches
        self.rows = memory.rows
        self.documents = memory.layout.batch
        self.in_sentence: Tensor | None = None  # (rows,) tokens of the current sentence already cached
        self.spans = SourceSpans(memory)
        real = memory.layout.pad(torch.ones_like(memory.states[:, 0], dtype=torch.bool))
        self.source_real = real  # (documents, source length)
        self.layers = [LayerCache(layer, memory, self) for layer in decoder.layers]

    def advance(self, bos: int, tags: Tensor, last: Tensor) -> None:
        """Take in the new last token of every row: where it is kept, and which keys it may see."""
        if self.in_sentence is None:
            self.in_sentence = torch.zeros_like(last)
        else:
            self.in_sentence = self.in_sentence + 1
        if self.grouped:
            self.in_sentence = self.in_sentence.masked_fill(last.eq(bos), 0)
        self.local_length = int(self.in_sentence.max()) + 1
        column = torch.arange(self.local_length, device=last.device)
        self.local_real = column <= self.in_sentence.unsqueeze(1)
        rows = torch.arange(len(last), device=last.device) if self.rows is None else self.rows
        self.key_index, self.key_real = self.spans.lookup(rows, tags if self.grouped else torch.zeros_like(tags))
        self.row_documents = rows

    def reorder(self, order: Tensor) -> None:
        """Rows picked by ``order``."""
        if self.in_sentence is not None:
            self.in_sentence = self.in_sentence.index_select(0, order)
        for layer in self.layers:
            layer.reorder(order)


class LayerCache:
    """The caches of one decoder layer, and its step."""

    def __init__(self, layer: DecoderLayer, memory: Memory, state: DecoderState):
        self.own_local, self.own_global = GrowingCache(), GrowingCache()
        self.cross_local = self._project(layer.encoder_attn_local, memory.states.index_select(0, state.spans.sort))
        self.cross_global = None
        if layer.encoder_attn_global is not None:
            k, v = self._project(layer.encoder_attn_global, memory.states)
            self.cross_global = memory.layout.pad(k), memory.layout.pad(v)

    @staticmethod
    def _project(module: MultiheadAttention, states: Tensor) -> tuple[Tensor, Tensor]:
        return module.split(module.k_proj(states)), module.split(module.v_proj(states))

    def step(self, layer: DecoderLayer, x: Tensor, state: DecoderState) -> Tensor:
        """x (rows, channels): the newest token of every row through one layer."""
        x = layer.residual(x, lambda h: self._self_attention(layer, h, state), layer.self_attn_layer_norm)
        x = layer.residual(x, lambda h: self._cross_attention(layer, h, state), layer.encoder_attn_layer_norm)
        return layer.feed_forward(x)

    def _self_attention(self, layer: DecoderLayer, h: Tensor, state: DecoderState) -> Tensor:
        local = self._cached(
            layer.self_attn_local, self.own_local, h, state.in_sentence, state.local_length, state.local_real
        )
        if layer.self_attn_global is None:
            return local
        position = torch.full_like(state.in_sentence, state.steps)
        global_ = self._cached(layer.self_attn_global, self.own_global, h, position, state.steps + 1, None)
        return layer.combine("self_attn", local, global_)

    @staticmethod
    def _cached(
        module: MultiheadAttention, cache: GrowingCache, h: Tensor, position: Tensor, longest: int, real: Tensor | None
    ) -> Tensor:
        k, v = LayerCache._project(module, h)
        cache.write(k, v, position, longest)
        q = module.split(module.q_proj(h))
        return module.out_proj(_attend(q, cache.keys[:, :longest], cache.values[:, :longest], real))

    def _cross_attention(self, layer: DecoderLayer, h: Tensor, state: DecoderState) -> Tensor:
        module = layer.encoder_attn_local
        k, v = (x.index_select(0, state.key_index.flatten()) for x in self.cross_local)
        shape = (*state.key_index.shape, *k.shape[1:])
        local = _attend(module.split(module.q_proj(h)), k.view(shape), v.view(shape), state.key_real)
        local = module.out_proj(local)
        if layer.encoder_attn_global is None:
            return local
        module = layer.encoder_attn_global
        k, v = (x.index_select(0, state.row_documents) for x in self.cross_global)
        real = state.source_real.index_select(0, state.row_documents)
        global_ = module.out_proj(_attend(module.split(module.q_proj(h)), k, v, real))
        return layer.combine("encoder_attn", local, global_)

    def reorder(self, order: Tensor) -> None:
        """Rows picked by ``order``; what belongs to documents stays where it is."""
        self.own_local.reorder(order)
        self.own_global.reorder(order)


def _attend(q: Tensor, k: Tensor, v: Tensor, real: Tensor | None) -> Tensor:
    """One query a row: q (rows, heads, dim), k and v (rows, length, heads, dim), real (rows, length) or None."""
    if real is None:
        real = torch.ones(k.shape[:2], dtype=torch.bool, device=k.device)
    weights = attention_weights(q.unsqueeze(1), k, real.unsqueeze(1))
    return torch.einsum("bhqk,bkhd->bqhd", weights.to(v.dtype), v).flatten(1)
