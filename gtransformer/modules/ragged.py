"""The ragged layout: the tokens of a padded batch, end to end, without padding; and encoder states
in this layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

ABSENT = -1  # the tag of padding in arrays on the host


def on_device(planned: np.ndarray, device: torch.device | str) -> Tensor:
    """Return an array of the host as a tensor on a device; on the CPU both share their memory.

    Copying pageable memory to a GPU makes the host wait for all queued work. Copying pinned memory
    is queued.
    """
    tensor, device = torch.from_numpy(planned), torch.device(device)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class Ragged:
    """Positions of the N real tokens of a padded (batch, length) block, with the document and
    sentence of each.

    Tokens are ordered document by document, in reading order. Masks have one polarity: True means a
    real token.

    Args:
        real: (batch, length) bool, True at real tokens.
        tags: (batch, length) int64 group tags.

    Attributes:
        tags, real: (batch, length) int64 and bool on the host; tags are ``ABSENT`` at padding.
        doc_lengths, doc_starts: (batch,) and (batch + 1,) int64, of each document its number of
            tokens and its first token; the last one ends with the tokens.
        whole: False for prefixes in decoding: nothing may depend on their length.
    """

    whole = True
    batch_keys = None  # see decoding.view.NewestTokens

    def __init__(self, real: Tensor, tags: Tensor):
        # The only synchronisation with the device: one for each layout of a batch.
        self._place(torch.where(real, tags, ABSENT).cpu().numpy(), real.device)

    @classmethod
    def of_tags(cls, tags: np.ndarray, device: torch.device, whole: bool = False) -> Ragged:
        """Return the layout of tags that are on the host, by default that of prefixes."""
        layout = cls.__new__(cls)
        layout._place(tags, device)
        layout.whole = whole
        return layout

    def _place(self, tags: np.ndarray, device: torch.device) -> None:
        self.tags, self.device = tags, device
        self.batch, self.length = tags.shape
        self.real = tags != ABSENT
        self.doc_lengths = self.real.sum(axis=1)
        self.doc_starts = np.concatenate([[0], np.cumsum(self.doc_lengths)])
        self.total = int(self.doc_starts[-1])  # N, the number of real tokens

    @cached_property
    def doc(self) -> np.ndarray:
        """(N,) int64 on the host: the document of each token."""
        return np.repeat(np.arange(self.batch), self.doc_lengths)

    @cached_property
    def tag(self) -> np.ndarray:
        """(N,) int64 on the host: the group tag of each token."""
        return self.tags[self.real]

    @cached_property
    def index(self) -> Tensor:
        """(N,) int64: position of each token in the flattened padded block."""
        return on_device(np.flatnonzero(self.real), self.device)

    @cached_property
    def offset(self) -> Tensor:
        """(N,) int64: position of each token in its document, from 0."""
        return on_device(self.position, self.device)

    @cached_property
    def position(self) -> np.ndarray:
        """``offset`` on the host."""
        return np.arange(self.total) - self.doc_starts[self.doc]

    @cached_property
    def sentence(self) -> np.ndarray:
        """(N,) int64: one number for every pair of document and tag, ascending in document, then
        tag.
        """
        # As two digits of one number, so that sorting and comparing are those of integers.
        return (self.doc << 32) + self.tag

    def history(self) -> tuple[Ragged, np.ndarray | slice]:
        """Return the queries with all tokens of their documents before them, and which of these
        are queries; in decoding queries are the newest tokens alone.
        """
        return self, slice(None)

    @cached_property
    def begins(self) -> np.ndarray:
        """(sentences,) int64: the first token of every sentence, in reading order."""
        return np.flatnonzero(np.diff(self.sentence, prepend=-1))

    @cached_property
    def within(self) -> np.ndarray:
        """(N,) int64: position of each token in its sentence, from 0, on the host."""
        lengths = np.diff(self.begins, append=self.total)
        return np.arange(self.total) - np.repeat(self.begins, lengths)

    def positions(self, restarts: bool) -> tuple[Tensor, int]:
        """Return the position (N,) int64 of each token in its document, or sentence if it
        ``restarts`` there, and an upper bound of all.
        """
        position = self.within if restarts else self.position
        return on_device(position, self.device), int(position.max(initial=-1)) + 1

    def pack(self, padded: Tensor) -> Tensor:
        """Remove padding, (batch, length, ...) -> (N, ...)."""
        return padded.reshape(self.batch * self.length, *padded.shape[2:]).index_select(
            0, self.index
        )

    def pad(self, packed: Tensor) -> Tensor:
        """Restore padding as zeros, (N, ...) -> (batch, length, ...)."""
        padded = packed.new_zeros(self.batch * self.length, *packed.shape[1:])
        return padded.index_copy(0, self.index, packed).view(
            self.batch, self.length, *packed.shape[1:]
        )


@dataclass
class Memory:
    """Encoder output that the hypotheses of a beam share.

    Attributes:
        states: (N, channels), ragged with ``layout``.
        documents: (hypotheses,) int64, the document that each hypothesis translates; None: one
            hypothesis a document, in order.
        extra_memories: by name, further memories of the same documents, which the same hypotheses
            read.
        per_document: by name, further tensors (documents, ...) about each document.
    """

    states: Tensor
    layout: Ragged
    documents: Tensor | None = None
    extra_memories: dict[str, Memory] = field(default_factory=dict)
    per_document: dict[str, Tensor] = field(default_factory=dict)

    def by_name(self) -> dict[str, Memory]:
        """Return all memories that the decoder can read, this one as ``source``."""
        return {"source": self, **self.extra_memories}

    def reorder(self, order: Tensor) -> Memory:
        """Select hypotheses by ``order``; the states themselves are neither copied nor moved."""
        return replace(
            self,
            documents=order if self.documents is None else self.documents.index_select(0, order),
        )

    def expanded(self) -> Memory:
        """Return the memory with one document a hypothesis; a document is copied for each of its
        hypotheses.
        """
        documents = self.documents
        if documents is None:
            return self
        tags = self.layout.tags[documents.cpu().numpy()]
        layout = Ragged.of_tags(tags, self.layout.device, self.layout.whole)
        extra_memories = {
            name: replace(memory, documents=documents).expanded()
            for name, memory in self.extra_memories.items()
        }
        return Memory(
            layout.pack(self.layout.pad(self.states).index_select(0, documents)),
            layout,
            None,
            extra_memories,
            {name: rows.index_select(0, documents) for name, rows in self.per_document.items()},
        )
