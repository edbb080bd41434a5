"""Windows (Herold and Ney 2023, section 3.3, Eq. 1): a query sees the keys at most w positions from b_i."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtransformer.models.common.blocks import Scope
from gtransformer.models.common.decoding.cached_memory import CachedIntervals, Newest
from gtransformer.models.common.decoding.history import Forced
from gtransformer.modules import alignment
from gtransformer.modules.ragged import Memory, Ragged
from gtransformer.modules.reach import Reach, by_window

ONE_TO_ONE, LINEAR, SENTENCE = ALIGNMENTS = ("one-to-one", "linear", "sentence")
CENTRES = {ONE_TO_ONE: alignment.one_to_one, LINEAR: alignment.linear, SENTENCE: alignment.by_sentence}


class CachedWindow(CachedIntervals):
    """The window of a memory around the position that each hypothesis is aligned with, as of documents that are begun.

    It differs from what it inherits in that by sentence a position follows from the one before.
    """

    def __init__(self, scope: AlignedWindow, memory: Memory, documents: np.ndarray, beam: int):
        super().__init__(scope, memory, documents, beam)
        self.starts = alignment.sentence_starts(memory.layout)
        self.centre = np.full((len(documents), beam), -1)

    def advance(self, opens: np.ndarray, tags: np.ndarray, position: np.ndarray) -> None:
        layout, scope = self.memory.layout, self.scope
        lengths = layout.doc_lengths[self.documents][:, None]
        if scope.begun == ONE_TO_ONE:
            centre = alignment.one_to_one_step(position[:, None], lengths)
        elif scope.begun == LINEAR:
            centre = alignment.linear_step(position[:, None], lengths, scope.ratio)
        else:
            start = self.starts[self.documents[:, None], np.minimum(tags, self.starts.shape[1] - 1)]
            centre = alignment.by_sentence_step(self.centre, opens | (position == 0)[:, None], start, lengths)
        self.centre = np.broadcast_to(centre, self.centre.shape).copy()
        if (self.centre == self.centre[:, :1]).all():
            centre = self.centre[:, :1]
        place = centre[..., None] + np.arange(-scope.width, scope.width + 1)
        first = layout.doc_starts[self.documents][:, None, None]
        there = (place >= 0) & (place < lengths[..., None])
        self.look(first + np.clip(place, 0, lengths[..., None] - 1), there)

    def force(self, forced: Forced) -> None:
        """Go on behind the last position of what is forced, where no sentence of the source begins anew."""
        if self.scope.begun == SENTENCE:
            layout, groups = forced.layout, forced.groups.cpu().numpy()
            queries = Newest(self.documents[groups][layout.doc], layout.tag, layout.position)
            centres = alignment.by_sentence(queries, self.memory.layout)
            self.centre[groups] = centres[layout.doc_starts[1:] - 1][:, None]

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        super().reorder(groups, beams)
        self.centre = self.centre[groups[:, None], beams]

    def replace(self, group: int, document: int) -> None:
        super().replace(group, document)
        self.centre[group] = -1


@dataclass(frozen=True)
class OwnWindow(Scope):
    """Of self-attention: the keys around the query itself, b_i = i."""

    name = "window"
    width: int

    @property
    def prefix_tokens(self) -> int:
        """The newest token and ``width`` before it."""
        return self.width + 1

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        return by_window(queries, keys, alignment.one_to_one(queries, keys), self.width, causal)


@dataclass(frozen=True)
class AlignedWindow(Scope):
    """Of cross-attention: the keys around the position that an alignment gives.

    Attributes:
        width: w.
        whole: the alignment of documents that are whole, in training and scoring.
        begun: the alignment in decoding, where their length is not known yet.
        ratio: source tokens for each target token, of ``begun`` linear.
    """

    name = "window"
    pairs_sentences, aligns = False, True
    cached_memory = CachedWindow
    width: int
    whole: str
    begun: str
    ratio: float

    @property
    def minds_length(self) -> bool:
        """Of linear windows: they stretch the one document to the other's length."""
        return self.whole == LINEAR

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        chosen = self.whole if queries.whole else self.begun
        known = {} if queries.whole or chosen != LINEAR else {"ratio": self.ratio}
        return by_window(queries, keys, CENTRES[chosen](queries, keys, **known), self.width, causal)
