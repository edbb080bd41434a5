"""What an encoder hands to the decoder: ragged states, and which of them each row of the decoder reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from gtransformer.modules.ragged import Ragged, on_device


@dataclass
class Memory:
    """Encoder output that the rows of a beam share.

    states (N, channels) ragged with ``layout``; rows (r,) int64 says which document each decoder row translates, None
    stands for one row a document, in order. ``beside``: further memories of the same documents by name, which the same
    rows read. ``known``: what else is known of each document, tensors (documents, ...) by name.
    """

    states: Tensor
    layout: Ragged
    rows: Tensor | None = None
    beside: dict[str, Memory] = field(default_factory=dict)
    known: dict[str, Tensor] = field(default_factory=dict)

    def by_name(self) -> dict[str, Memory]:
        """All memories that the decoder can read, this one as ``source``."""
        return {"source": self, **self.beside}

    def reorder(self, order: Tensor) -> Memory:
        """Rows picked by ``order``; the states themselves are neither copied nor moved."""
        return replace(self, rows=order if self.rows is None else self.rows.index_select(0, order))

    def expanded(self) -> Memory:
        """The same with one document a row, copied as often as it is used."""
        if self.rows is None:
            return self
        padded = self.layout.pad(self.states).index_select(0, self.rows)
        real = self.layout.pad(torch.ones_like(self.states[:, 0], dtype=torch.bool)).index_select(0, self.rows)
        tags = self.layout.pad(on_device(self.layout.tag, self.states.device)).index_select(0, self.rows)
        layout = Ragged(real, tags)
        beside = {name: replace(one, rows=self.rows).expanded() for name, one in self.beside.items()}
        known = {name: one.index_select(0, self.rows) for name, one in self.known.items()}
        return Memory(layout.pack(padded), layout, beside=beside, known=known)
