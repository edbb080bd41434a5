"""Decoding token by token, at a cost that grows with the sentence, not with the document.

Group attention never looks behind the ``<s>`` that opened a sentence, so what it remembers is dropped there. Only
global self-attention keeps the whole prefix, most of it once for all beams. Keys and values of cross-attention are
projected once per document and shared by its beams. Reordering beams moves no key and no value. Products that have the
same input are one product, with weights laid out for few rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.gtransformer.caches import DocumentCache, History, SlotCache, attend, visible_to_score
from gtransformer.models.gtransformer.reach import GLOBAL, GROUP
from gtransformer.models.gtransformer.source_window import (
    GlobalSource,
    LocalSource,
    SourceSpans,
    SourceWindow,
    heads,
)
from gtransformer.modules.linear import PackedLinear

if TYPE_CHECKING:
    from gtransformer.models.gtransformer.decoder import GTransformerDecoder
    from gtransformer.models.gtransformer.encoder import Memory
    from gtransformer.models.gtransformer.layers import DecoderLayer


class DecoderState:
    """Everything that decoding remembers of its rows, and one step of it.

    Args:
        decoder: the decoder, in evaluation mode. Its weights are copied as they are now.
        memory: encoder output; ``rows`` says which document each row translates.
        rows: number of rows.
        dtype: type of the products; default that of the weights.
    """

    def __init__(self, decoder: GTransformerDecoder, memory: Memory, rows: int, dtype: torch.dtype | None = None):
        self.decoder, self.memory, self.dtype = decoder, memory, dtype
        self.device = memory.states.device
        documents = np.arange(rows) if memory.rows is None else memory.rows.cpu().numpy()
        self.documents = group_rows(documents)
        self.beam = rows // max(1, len(self.documents))
        grouped, whole = (any(kind != alone for kind in decoder.self_kinds) for alone in (GLOBAL, GROUP))
        self.history = History(len(self.documents), self.beam, local=grouped, document=whole)
        spans = SourceSpans(memory.layout)
        by_sentence = any(kind != GLOBAL for kind in decoder.cross_kinds)
        self.window = SourceWindow(spans, self.documents, self.device) if by_sentence else None
        self.layers = [LayerStep(layer, self, spans.sort) for layer in decoder.layers]
        self.output = PackedLinear(decoder.output_projection, dtype=dtype)
        self._measure_sources()

    @property
    def steps(self) -> int:
        """Tokens of every row already taken in (of documents that began together)."""
        return int(self.history.steps.max(initial=0))

    def step(self, tokens: Tensor, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        """Take in a new last token of every row.

        Args:
            tokens: (rows,) int64 on the device.
            opens: (groups, beam) bool, True at ``<s>``; tags: (groups, beam) int64, the number of its sentence.

        Returns:
            top states of the new tokens, (rows, channels).
        """
        offsets = np.repeat(self.history.steps, self.beam)
        self.history.advance(opens)
        if self.window is not None:
            self.window.advance(tags)
        self._make_masks()
        x = self.decoder.embed(tokens, torch.from_numpy(offsets).to(self.device), int(offsets.max(initial=0)) + 1)
        for layer in self.layers:
            x = layer.step(x, self)
        moves = self.history.agreed()
        if moves:
            for layer in self.layers:
                layer.absorb(moves)
        norm = self.decoder.layer_norm
        return x if norm is None else norm(x)

    def logits(self, features: Tensor) -> Tensor:
        """(n, channels) -> (n, vocabulary)."""
        return self.output(features)

    def _make_masks(self) -> None:
        history, dtype = self.history, self.memory.states.dtype
        if history.local:
            self.local_first, seen = history.view(history.sentence)
            self.local_mask = visible_to_score(_for_heads(seen), self.device, dtype)
        if history.document:
            self.tail_first, seen = history.view(history.trunk_end[:, None])
            self.tail_mask = visible_to_score(_for_heads(seen), self.device, dtype)
            self.trunk_width = int(history.trunk_length.max(initial=0))
            seen = np.arange(self.trunk_width) < history.trunk_length[:, None]
            self.trunk_mask = visible_to_score(seen[:, None, None], self.device, dtype)

    def _measure_sources(self) -> None:
        lengths = self.memory.layout.doc_lengths
        real = np.arange(lengths.max(initial=0)) < lengths[self.documents][:, None]
        self.source_mask = visible_to_score(real[:, None, None], self.device, self.memory.states.dtype)

    def reorder(self, order: Tensor) -> None:
        """Row i goes on with what row ``order[i]`` was; documents may leave, beams may change places.

        Raises ValueError if rows of several documents would become one group.
        """
        host = order.cpu().numpy()
        origin, beams = (host // self.beam).reshape(-1, self.beam), (host % self.beam).reshape(-1, self.beam)
        groups = origin[:, 0]
        if (origin != groups[:, None]).any():
            raise ValueError("the rows of a document must stay together")
        self.history.reorder(groups, beams)
        if len(groups) == len(self.documents) and (groups == np.arange(len(groups))).all():
            return
        self.documents = self.documents[groups]
        if self.window is not None:
            self.window.pick(self.documents)
        self._measure_sources()
        picked = torch.from_numpy(groups).to(self.device)
        for layer in self.layers:
            layer.pick(picked)

    def replace(self, group: int, document: int) -> None:
        """Let the rows of a group begin another document of ``memory``."""
        self.documents = self.documents.copy()
        self.documents[group] = document
        self.history.restart(group)
        if self.window is not None:
            self.window.documents = self.documents
            self.window.first[group] = -1
        self._measure_sources()
        for layer in self.layers:
            if layer.cross_global is not None:
                layer.cross_global.put(group, document)


def _for_heads(seen: np.ndarray) -> np.ndarray:
    """(groups, beam, slots, beam) -> (groups, 1, beam, slots * beam)."""
    return seen.reshape(*seen.shape[:2], -1)[:, None]


def group_rows(documents: np.ndarray) -> np.ndarray:
    """The document of each group, if rows (n,) stand in groups of equal size, document by document; else one a row."""
    if not len(documents):
        return documents
    begins = np.flatnonzero(np.diff(documents, prepend=documents[0] - 1))
    sizes = np.diff(begins, append=len(documents))
    values = documents[begins]
    return values if (sizes == sizes[0]).all() and len(np.unique(values)) == len(values) else documents


class LayerStep:
    """One decoder layer for one token of every row: its weights laid out for that, and its caches."""

    def __init__(self, layer: DecoderLayer, state: DecoderState, sort: Tensor):
        self.layer = layer
        own = [layer.self_attn_local, layer.self_attn_global]
        cross = [layer.encoder_attn_local, layer.encoder_attn_global]
        self.own = [module for module in own if module is not None]
        self.cross = [module for module in cross if module is not None]

        def pack(*modules) -> PackedLinear:
            return PackedLinear(*modules, dtype=state.dtype)

        self.own_in = pack(*(part for m in self.own for part in (m.q_proj, m.k_proj, m.v_proj)))
        self.own_out = [pack(module.out_proj) for module in self.own]
        self.own_gate = pack(layer.self_attn_gate[0]) if layer.self_attn_gate is not None else None
        self.cross_in = pack(*(module.q_proj for module in self.cross))
        self.cross_out = [pack(module.out_proj) for module in self.cross]
        self.cross_gate = pack(layer.encoder_attn_gate[0]) if layer.encoder_attn_gate is not None else None
        self.fc1, self.fc2 = pack(layer.fc1), pack(layer.fc2)
        first = DocumentCache() if layer.kinds["self_attn"] == GLOBAL else SlotCache()
        self.caches = [first, DocumentCache()][: len(self.own)]
        # Of group and global attention, in this order, a layer has the first, the second, or both.
        self.cross_local = self.cross_global = None
        if layer.kinds["encoder_attn"] != GLOBAL:
            self.cross_local = LocalSource(self.cross[0], state.memory, sort)
        if layer.kinds["encoder_attn"] != GROUP:
            self.cross_global = GlobalSource(self.cross[-1], state.memory, state.documents.tolist())

    def step(self, x: Tensor, state: DecoderState) -> Tensor:
        """x (rows, channels): the newest token of every row through the layer."""
        layer = self.layer
        x = layer.residual(x, lambda h: self._own_attention(h, state), layer.self_attn_layer_norm)
        x = layer.residual(x, lambda h: self._cross_attention(h, state), layer.encoder_attn_layer_norm)
        return layer.residual(x, lambda h: self.fc2(layer.activation(self.fc1(h))), layer.final_layer_norm)

    def _own_attention(self, h: Tensor, state: DecoderState) -> Tensor:
        parts = heads(self.own[0], self.own_in(h))
        results = []
        for number, cache in enumerate(self.caches):
            q, k, v = parts[3 * number : 3 * number + 3]
            cache.write([k, v], state.history, state.beam)
            q = q.unflatten(0, (-1, state.beam)).transpose(1, 2)
            result = _over_document(q, cache, state) if isinstance(cache, DocumentCache) else _local(q, cache, state)
            results.append(self.own_out[number](_to_rows(result)))
        return _combine(self.own_gate, results)

    def _cross_attention(self, h: Tensor, state: DecoderState) -> Tensor:
        queries = [q.unflatten(0, (-1, state.beam)).transpose(1, 2) for q in heads(self.cross[0], self.cross_in(h))]
        results = []
        if self.cross_local is not None:
            local = _to_rows(self.cross_local.attend(queries[0], state.window))
            if state.window.blind is not None:
                local = local.masked_fill(state.window.blind.unsqueeze(1), 0.0)
            results.append(self.cross_out[0](local))
        if self.cross_global is not None:
            over_all = self.cross_global.attend(queries[-1], state.source_mask)
            results.append(self.cross_out[-1](_to_rows(over_all)))
        return _combine(self.cross_gate, results)

    def absorb(self, moves: list) -> None:
        """Move what beams agree on to the trunk."""
        for cache in self.caches:
            if isinstance(cache, DocumentCache):
                cache.absorb(moves)

    def pick(self, groups: Tensor) -> None:
        """Only these groups go on."""
        for cache in self.caches:
            cache.pick(groups)
        if self.cross_local is not None:
            self.cross_local.window = []
        if self.cross_global is not None:
            self.cross_global.pick(groups)


def _to_rows(x: Tensor) -> Tensor:
    """(groups, heads, beam, dim) -> (rows, channels)."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


def _local(q: Tensor, cache: SlotCache, state: DecoderState) -> Tensor:
    keys, values = cache.read(state.local_first, state.history)
    return attend(q, [keys], [values], [state.local_mask])


def _over_document(q: Tensor, cache: DocumentCache, state: DecoderState) -> Tensor:
    keys, values = cache.read(state.tail_first, state.history)
    if not state.trunk_width:
        return attend(q, [keys], [values], [state.tail_mask])
    trunk_keys, trunk_values = cache.read_trunk(state.trunk_width)
    return attend(q, [trunk_keys, keys], [trunk_values, values], [state.trunk_mask, state.tail_mask])


def _combine(gate: PackedLinear | None, results: list[Tensor]) -> Tensor:
    """Eq. 10 for group and global attention, or the one result there is."""
    if gate is None:
        return results[0]
    local, over_all = results
    return torch.lerp(over_all, local, torch.sigmoid(gate(torch.cat(results, dim=-1))))
