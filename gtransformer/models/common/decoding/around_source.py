"""The window of a memory around the place that each row of a beam is aligned with (window attention)."""

from __future__ import annotations

import numpy as np
import torch

from gtransformer.models.common.decoding.history import visible_to_score
from gtransformer.models.common.windows import LINEAR, ONE_TO_ONE, AlignedWindow
from gtransformer.modules.alignment import by_sentence_step, linear_step, one_to_one_step, sentence_starts
from gtransformer.modules.ragged import Ragged, on_device


class AroundSource:
    """For each row the keys of its window, the same for all layers.

    After ``advance``: ``index`` (groups, beam or 1, 2 w + 1) int64 into the memory's tokens, 1 where all beams of every
    group are at the same place; ``mask`` (groups * (beam or 1), 1, 1, 2 w + 1) is added to scores.

    Args:
        scope: its alignment is that of documents that are begun.
        layout: of the memory.
        documents: (groups,) the document that each group reads.
        beam: rows of a group.
    """

    def __init__(self, scope: AlignedWindow, layout: Ragged, documents: np.ndarray, beam: int):
        self.scope, self.layout, self.documents = scope, layout, documents
        self.starts = sentence_starts(layout)
        self.centre = np.full((len(documents), beam), -1)

    def advance(self, opens: np.ndarray, tags: np.ndarray, position: np.ndarray) -> None:
        """The next token of every row; arguments as for ``SourceSide.advance``."""
        lengths = self.layout.doc_lengths[self.documents][:, None]
        if self.scope.begun == ONE_TO_ONE:
            centre = one_to_one_step(position[:, None], lengths)
        elif self.scope.begun == LINEAR:
            centre = linear_step(position[:, None], lengths, self.scope.ratio)
        else:
            start = self.starts[self.documents[:, None], np.minimum(tags, self.starts.shape[1] - 1)]
            centre = by_sentence_step(self.centre, opens | (position == 0)[:, None], start, lengths)
        self.centre = np.broadcast_to(centre, self.centre.shape).copy()
        if (self.centre == self.centre[:, :1]).all():
            centre = self.centre[:, :1]
        place = centre[..., None] + np.arange(-self.scope.width, self.scope.width + 1)
        there = (place >= 0) & (place < lengths[..., None])
        first = self.layout.doc_starts[self.documents][:, None, None]
        device = self.layout.device
        self.index = on_device(first + np.clip(place, 0, lengths[..., None] - 1), device)
        scores = visible_to_score(there.reshape(-1, 1, 1, there.shape[-1]), device, torch.float32)
        self.mask = torch.zeros((), device=device) if scores is None else scores

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        """Rows and groups change places, as in ``SourceSide.reorder``."""
        self.centre = self.centre[groups[:, None], beams]
        self.documents = self.documents[groups]

    def replace(self, group: int, document: int) -> None:
        """Let a group begin another document."""
        self.documents = self.documents.copy()
        self.documents[group] = document
        self.centre[group] = -1
