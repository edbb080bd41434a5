"""Decoding token by token, at a cost that grows with the sentence, not with the document.

Group attention never looks behind the ``<s>`` that opened a sentence, so its cache is emptied there. Only global
self-attention keeps the whole prefix, most of it once for all beams. Keys and values of cross-attention are projected
once per document and shared by its beams; reordering beams does not touch them.

A language symbol behind the first position, which would see the whole prefix in group attention too, cannot occur: it
ends a document, and the search never continues one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.models.gtransformer.caches import DocumentCache, SentenceCache, Trunk
from gtransformer.modules.attention import MultiheadAttention

if TYPE_CHECKING:
    from gtransformer.models.gtransformer.decoder import GTransformerDecoder
    from gtransformer.models.gtransformer.encoder import Memory
    from gtransformer.models.gtransformer.layers import DecoderLayer
    from gtransformer.modules.ragged import Ragged


class SourceSpans:
    """Where each sentence of each document lies among the source tokens sorted by (document, tag).

    ``sort`` (N,) int64; starts and lengths (documents, sentences + 2): column 0 is the whole document, which a query
    with tag 0 sees; column k is sentence k, of length 0 where there is none; the last column is always empty.
    """

    def __init__(self, layout: Ragged):
        order = np.argsort((layout.doc.astype(np.int64) << 32) + layout.tag, kind="stable")
        doc, tag = layout.doc[order], layout.tag[order]
        shape = layout.batch, int(tag.max(initial=0)) + 2
        starts = np.repeat(layout.doc_starts[:-1, None], shape[1], axis=1)
        lengths = np.zeros(shape, dtype=np.int64)
        lengths[:, 0] = layout.doc_lengths
        tagged = np.flatnonzero(tag > 0)
        np.add.at(lengths, (doc[tagged], tag[tagged]), 1)
        backwards = tagged[::-1]  # the first token of a sentence is written last
        starts[doc[backwards], tag[backwards]] = backwards
        self.sort = torch.from_numpy(order)
        self.starts, self.lengths = torch.from_numpy(starts), torch.from_numpy(lengths)

    def lookup(self, documents: Tensor, tags: Tensor) -> tuple[Tensor, Tensor]:
        """Documents and tags (rows,) on the host -> start and length (rows,) of the keys that each row sees."""
        tags = tags.clamp(max=self.starts.shape[1] - 1)
        return self.starts[documents, tags], self.lengths[documents, tags]


class DecoderState:
    """Everything that decoding remembers of the prefixes of its rows."""

    def __init__(self, decoder: GTransformerDecoder, memory: Memory, rows: int):
        self.grouped = decoder.cfg.doc_mode == "partial"
        self.device = memory.states.device
        self.spans = SourceSpans(memory.layout)
        self.documents = torch.arange(rows) if memory.rows is None else memory.rows.cpu()
        self.group_documents = group_rows(self.documents)
        self.in_sentence = torch.full((rows,), -1)  # position of the last token in its sentence
        self.trunk = Trunk(rows, len(self.group_documents), self.device)
        self.window: tuple[Tensor, int] | None = None
        self.source_mask: Tensor | None = None
        self.source_real = memory.layout.pad(torch.ones_like(memory.states[:, 0], dtype=torch.bool))
        self.layers = [LayerCache(layer, memory, self) for layer in decoder.layers]

    @property
    def steps(self) -> int:
        """Tokens of every row already taken in."""
        return self.trunk.steps

    @property
    def beam(self) -> int:
        """Rows of a group."""
        return len(self.documents) // len(self.group_documents)

    def advance(self, opens: Tensor, tags: Tensor) -> None:
        """Take in a new last token of every row; on the host: ``opens`` (rows,), True at ``<s>``, ``tags`` (rows,)."""
        self.trunk.advance()
        self.in_sentence = self.in_sentence + 1
        if self.grouped:
            self.in_sentence = self.in_sentence.masked_fill(opens, 0)
        else:
            tags = torch.zeros_like(tags)
        self.sentence_length = int(self.in_sentence.max()) + 1
        visible = torch.arange(self.sentence_length) <= self.in_sentence.unsqueeze(1)
        self.sentence_mask = None if visible.all() else visible[:, None, None].to(self.device)
        self.sentence_position = self.in_sentence.to(self.device)
        self._advance_source(tags)

    def _advance_source(self, tags: Tensor) -> None:
        start, length = self.spans.lookup(self.documents, tags)
        first = torch.where(length > 0, start, start.max()).view(-1, self.beam).amin(dim=1)
        last = (start + length).view(-1, self.beam).amax(dim=1)
        width = max(1, int((last - first).max()))
        if self.window is None or self.window[1] != width or not torch.equal(self.window[0], first):
            self.window = first, width
            index = first.unsqueeze(1) + torch.arange(width)
            self.window_index = index.clamp(max=len(self.spans.sort) - 1).to(self.device)
            self.window_changes = self.steps
        column = (self.window[0].unsqueeze(1) + torch.arange(width)).repeat_interleave(self.beam, dim=0)
        seen = (column >= start.unsqueeze(1)) & (column < (start + length).unsqueeze(1))
        self.window_mask = None if seen.all() else seen.view(-1, 1, self.beam, width).to(self.device)
        self.blind = None if (length > 0).all() else length.eq(0).to(self.device)
        if self.source_mask is None:
            real = self.source_real.index_select(0, self.group_documents.to(self.device))
            self.source_mask = real[:, None, None]

    def reorder(self, order: Tensor) -> None:
        """Row i continues what row ``order[i]`` was; documents may leave, beams may change places."""
        host = order.cpu()
        old_group = torch.arange(len(self.group_documents)).repeat_interleave(self.beam)
        documents, origin = self.documents[host], old_group[host]
        group_documents = group_rows(documents)
        beam = len(documents) // len(group_documents)
        groups = origin.view(-1, beam)[:, 0]
        if not torch.equal(groups.repeat_interleave(beam), origin):
            group_documents, groups = documents, origin  # beams of one document that share nothing: one group a row
        unchanged = len(groups) == len(self.group_documents) and torch.equal(groups, torch.arange(len(groups)))
        same_rows = unchanged and torch.equal(host, torch.arange(len(host)))
        self.documents, self.group_documents = documents, group_documents
        self.in_sentence = self.in_sentence[host]
        absorb = self.trunk.reorder(host, groups.tolist())
        if not unchanged:
            self.window = self.source_mask = None
        selected = None if unchanged else groups.to(self.device)
        for layer in self.layers:
            for cache in (layer.own_local, layer.own_global):
                if not same_rows or any(absorb):
                    cache.reorder(order, selected, absorb, self.trunk)
            if selected is not None and layer.cross_global is not None:
                layer.cross_global = [side.index_select(0, selected) for side in layer.cross_global]


def group_rows(documents: Tensor) -> Tensor:
    """The document of each group, if rows (n,) stand in groups of equal size, document by document; else one a row."""
    values, counts = torch.unique_consecutive(documents, return_counts=True)
    return values if bool((counts == counts[0]).all()) and len(values.unique()) == len(values) else documents


class LayerCache:
    """The caches of one decoder layer, and its step."""

    def __init__(self, layer: DecoderLayer, memory: Memory, state: DecoderState):
        self.own_local = SentenceCache() if state.grouped else DocumentCache()
        self.own_global = DocumentCache()
        sort = state.spans.sort.to(state.device)
        self.cross_local = _project(layer.encoder_attn_local, memory.states.index_select(0, sort))
        self.window_made, self.window = -1, None
        self.cross_global = None
        if layer.encoder_attn_global is not None:
            groups = state.group_documents.to(state.device)
            self.cross_global = [
                memory.layout.pad(side).index_select(0, groups).transpose(1, 2)
                for side in _project(layer.encoder_attn_global, memory.states)
            ]

    def step(self, layer: DecoderLayer, x: Tensor, state: DecoderState) -> Tensor:
        """x (rows, channels): the newest token of every row through one layer."""
        x = layer.residual(x, lambda h: self._self_attention(layer, h, state), layer.self_attn_layer_norm)
        x = layer.residual(x, lambda h: self._cross_attention(layer, h, state), layer.encoder_attn_layer_norm)
        return layer.feed_forward(x)

    def _self_attention(self, layer: DecoderLayer, h: Tensor, state: DecoderState) -> Tensor:
        module = layer.self_attn_local
        local = self._own(module, self.own_local, h, state)
        if layer.self_attn_global is None:
            return local
        return layer.combine("self_attn", local, self._own(layer.self_attn_global, self.own_global, h, state))

    @staticmethod
    def _own(module: MultiheadAttention, cache: SentenceCache | DocumentCache, h: Tensor, state: DecoderState):
        k, v = _project(module, h)
        return module.out_proj(cache.attend(module.split(module.q_proj(h)), k, v, state))

    def _cross_attention(self, layer: DecoderLayer, h: Tensor, state: DecoderState) -> Tensor:
        module = layer.encoder_attn_local
        if self.window_made != state.window_changes:
            self.window_made = state.window_changes
            shape = state.window_index.shape
            self.window = [
                side.index_select(0, state.window_index.flatten()).unflatten(0, shape).transpose(1, 2)
                for side in self.cross_local
            ]
        local = _grouped_attention(module, h, self.window, state.window_mask, state.beam)
        if state.blind is not None:
            local = local.masked_fill(state.blind.unsqueeze(1), 0.0)
        local, module = module.out_proj(local), layer.encoder_attn_global
        if module is None:
            return local
        global_ = _grouped_attention(module, h, self.cross_global, state.source_mask, state.beam)
        return layer.combine("encoder_attn", local, module.out_proj(global_))


def _project(module: MultiheadAttention, states: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values, (n, heads, dim) each."""
    return module.split(module.k_proj(states)), module.split(module.v_proj(states))


def _grouped_attention(
    module: MultiheadAttention, h: Tensor, memory: list[Tensor], mask: Tensor | None, beam: int
) -> Tensor:
    """Rows h (groups * beam, channels) over keys and values (groups, heads, length, dim) -> (rows, heads * dim)."""
    q = module.split(module.q_proj(h)).unflatten(0, (-1, beam)).transpose(1, 2)
    output = functional.scaled_dot_product_attention(q, *memory, attn_mask=mask)
    return output.transpose(1, 2).flatten(0, 1).flatten(1)
