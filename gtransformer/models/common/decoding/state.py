"""Decoding token by token, at a cost that grows with the sentence, not with the document.

Group attention never looks behind the ``<s>`` that opened a sentence, so what it remembers is dropped there. Only
global self-attention keeps the whole prefix, most of it once for all beams. Keys and values of cross-attention are
projected once per document and shared by its beams. Reordering beams moves no key and no value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from gtransformer.models.common.decoding.attention_step import LayerStep
from gtransformer.models.common.decoding.forced import Forced
from gtransformer.models.common.decoding.history import History, Masks
from gtransformer.models.common.decoding.input_step import Pack
from gtransformer.models.common.decoding.rows import documents_of, regrouped
from gtransformer.models.common.decoding.source_window import SourceSide
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.models.common.memory import Memory
from gtransformer.modules.ragged import on_device


class CachedState:
    """Everything that decoding remembers of its rows, and one step of it.

    Args:
        decoder: the decoder, in evaluation mode.
        memory: encoder output; ``rows`` says which document each row translates.
        rows: number of rows.
        pack: lays out the weights of linear layers with one input, as they are now, as PackedLinear does.
    """

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, rows: int, pack: Pack):
        self.decoder, self.memory = decoder, memory
        self.device = memory.states.device
        self.documents = documents_of(memory, rows)
        self.beam = rows // max(1, len(self.documents))
        self.inputs = decoder.input_step(decoder, memory, self.documents, self.beam, pack)
        own = decoder.scopes(None)
        sentences = {scope.prefix_sentences for scope in own} - {None}
        tokens = {scope.prefix_tokens for scope in own} - {None}
        document = math.inf in sentences
        numbers = sorted(sentences - {math.inf}) or [1] * decoder.restarts
        self.history = History(len(self.documents), self.beam, numbers, document, sorted(tokens))
        read = {name: (one, decoder.scopes(name)) for name, one in memory.by_name().items()}
        self.sides = {
            name: SourceSide(one, self.documents, self.beam, scopes) for name, (one, scopes) in read.items() if scopes
        }
        self.layers = [LayerStep(layer, self.sides, pack) for layer in decoder.layers]
        self.sights = [sight for layer in self.layers for sight in layer.sights()]
        self.output = pack(decoder.output_projection)

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
        self.history.advance(opens)
        offsets = self.history.positions(self.decoder.restarts)
        for side in self.sides.values():
            side.advance(opens, tags, self.history.steps - 1)
        masks = Masks(self.history, tags.ravel(), self.device, self.memory.states.dtype)
        x = self.inputs.step(tokens, offsets, opens, tags)
        for layer in self.layers:
            x = layer.step(x, masks)
        moves = self.history.agreed()
        if moves:
            for sight in self.sights:
                sight.absorb(moves)
        norm = self.decoder.layer_norm
        return x if norm is None else norm(x)

    def force(self, prefixes: Sequence[Tensor]) -> None:
        """Take in what the rows of each group begin with, in front of the first step: one full pass for all beams.

        ``prefixes``: for each group (length,) int64 on the device, whole sentences; the next token will be ``<s>``.
        """
        forced = Forced(self.decoder, self.memory, self.documents, prefixes, self.history)
        with self.decoder.autocast():
            x = self.inputs.force(forced)
            for layer in self.layers:
                x = layer.force(x, forced)

    def logits(self, features: Tensor) -> Tensor:
        """(n, channels) -> (n, vocabulary)."""
        return self.decoder.barred(self.output(features))

    def reorder(self, order: Tensor) -> None:
        """Row i goes on with what row ``order[i]`` was; documents may leave, beams may change places.

        Raises ValueError if rows of several documents would become one group.
        """
        groups, beams = regrouped(order, self.beam)
        self.history.reorder(groups, beams)
        self.inputs.reorder(groups, beams)
        for side in self.sides.values():
            side.reorder(groups, beams)
        if len(groups) == len(self.documents) and (groups == np.arange(len(groups))).all():
            return
        self.documents = self.documents[groups]
        for side in self.sides.values():
            side.pick(self.documents)
        picked = on_device(groups, self.device)
        for sight in self.sights:
            sight.pick(picked)

    def replace(self, group: int, document: int) -> None:
        """Let the rows of a group begin another document of ``memory``."""
        self.history.restart(group)
        self.inputs.replace(group, document)
        for side in self.sides.values():
            side.replace(group, document)
        self.documents = self.documents.copy()
        self.documents[group] = document
        for sight in self.sights:
            sight.put(group, document)

    def finish(self, document: int, tokens: Tensor) -> None:
        """Hear of the translation of a document, in front of the ``reorder`` that its rows leave by."""
        self.inputs.finish(document, tokens)
