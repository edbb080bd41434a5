"""Decoding without caches: every step goes through the whole prefix again.

Slow (a document of n tokens costs n full passes) and right for whatever a decoder does in its full pass: what a new
system decodes with until its scopes have caches, and what caches are tested against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.common.decoding.history import FIRST_CAPACITY
from gtransformer.models.common.decoding.rows import documents_of, regrouped
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.models.common.memory import Memory
from gtransformer.modules.ragged import Ragged, on_device


class PrefixState:
    """The prefixes of all rows; the same methods as CachedState.

    Args:
        decoder: any with ``extract_ragged`` and ``output_layer``, in evaluation mode.
        memory: encoder output; ``rows`` says which document each row translates.
        rows: number of rows.
    """

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, rows: int):
        self.decoder, self.memory = decoder, memory
        self.device = memory.states.device
        self.documents = documents_of(memory, rows)
        self.beam = rows // max(1, len(self.documents))
        self.lengths = np.zeros(len(self.documents), dtype=np.int64)  # tokens taken in of each document
        self.tokens = torch.full((rows, FIRST_CAPACITY), decoder.padding, device=self.device)

    @property
    def steps(self) -> int:
        """Tokens of every row already taken in (of documents that began together)."""
        return int(self.lengths.max(initial=0))

    def step(self, tokens: Tensor, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        """Take in a new last token of every row (rows,) -> top states of the new tokens, (rows, channels).

        ``opens`` and ``tags`` say nothing that the prefixes do not.
        """
        if self.steps == self.tokens.shape[1]:
            self.tokens = torch.cat([self.tokens, torch.full_like(self.tokens, self.decoder.padding)], dim=1)
        last = on_device(np.repeat(self.lengths, self.beam), self.device)
        self.tokens[torch.arange(len(tokens), device=self.device), last] = tokens
        self.lengths += 1
        prefixes = self.tokens[:, : self.steps]
        rows = on_device(np.repeat(self.documents, self.beam), self.device)
        memory = replace(self.memory, rows=rows)
        with self.decoder.autocast():
            layout = self.decoder.layout(prefixes)
            layout.whole = False
            x = self.top_states(prefixes, layout, memory.expanded())
        return x[on_device(layout.doc_starts[1:] - 1, self.device)]

    def top_states(self, prefixes: Tensor, layout: Ragged, memory: Memory) -> Tensor:
        """Of all tokens of the prefixes (rows, length), (N, channels)."""
        return self.decoder.extract_ragged(prefixes, layout, memory)

    def force(self, prefixes: Sequence[Tensor]) -> None:
        """Let the rows of each group begin with (length,) int64 tokens; as CachedState."""
        self.lengths = np.array([len(prefix) for prefix in prefixes], dtype=np.int64)
        room = max(0, self.steps - self.tokens.shape[1])
        self.tokens = torch.nn.functional.pad(self.tokens, (0, room), value=self.decoder.padding)
        for group, prefix in enumerate(prefixes):
            self.tokens[group * self.beam : (group + 1) * self.beam, : len(prefix)] = prefix

    def logits(self, features: Tensor) -> Tensor:
        """(n, channels) -> (n, vocabulary)."""
        with self.decoder.autocast():
            return self.decoder.output_layer(features)

    def reorder(self, order: Tensor) -> None:
        """Row i goes on with what row ``order[i]`` was; as CachedState."""
        groups, _ = regrouped(order, self.beam)
        self.tokens = self.tokens[order.to(self.device)]
        self.documents, self.lengths = self.documents[groups], self.lengths[groups]

    def replace(self, group: int, document: int) -> None:
        """Let the rows of a group begin another document of ``memory``."""
        self.documents = self.documents.copy()
        self.documents[group] = document
        self.lengths[group] = 0
        self.tokens[group * self.beam : (group + 1) * self.beam] = self.decoder.padding

    def finish(self, document: int, tokens: Tensor) -> None:
        """The full pass of a row reads nothing of other documents."""
