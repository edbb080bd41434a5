"""Windows ("Improving Long Context Document-Level Machine Translation", section 3.3, Eq. 1): |j - b_i| <= w."""

from __future__ import annotations

from dataclasses import dataclass

from gtransformer.models.common.blocks import Scope
from gtransformer.modules import alignment
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_window

ONE_TO_ONE, LINEAR, SENTENCE = ALIGNMENTS = ("one-to-one", "linear", "sentence")
CENTRES = {ONE_TO_ONE: alignment.one_to_one, LINEAR: alignment.linear, SENTENCE: alignment.by_sentence}


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
    """Of cross-attention: the keys around the place that an alignment gives.

    Attributes:
        width: w.
        whole: the alignment of documents that are whole, in training and scoring.
        begun: the alignment in decoding, where their length is not known yet.
        ratio: source tokens for each target token, of ``begun`` linear.
    """

    name = "window"
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
