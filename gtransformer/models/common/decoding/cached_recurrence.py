"""The state of a recurrent unit (``modules/ssru.py``) while decoding, in place of keys and values."""

from __future__ import annotations

from torch import Tensor

from gtransformer.models.common.decoding.cached_attention import CachedAttention
from gtransformer.models.common.decoding.history import ForcedPrefixes, History
from gtransformer.modules.ragged import on_device


class CachedRecurrence(CachedAttention):
    """The newest state of every hypothesis, (documents, beam, channels).

    ``by_sentence``: it begins at zero with every sentence; else with the document.
    """

    def __init__(self, by_sentence: bool):
        self.by_sentence = by_sentence
        self.state: Tensor | None = None

    def advance(self, forget: Tensor, new: Tensor, history: History) -> Tensor:
        """Return the states c = f * c + new of the newest tokens, (rows, channels), and keep them.

        ``forget`` f and ``new``: (rows, channels), as of ``Ssru.parts``.
        """
        if self.state is None:
            self.state = new.new_zeros(*history.ancestor.shape[:2], new.shape[1])
        before = self.state.flatten(0, 1)
        if self.by_sentence:
            begins = history.starts[0] == history.slots - 1
            if begins.any():
                before = before.masked_fill(on_device(begins.reshape(-1, 1), before.device), 0.0)
        state = forget * before + new
        self.state = state.view_as(self.state)
        return state

    def force(self, new: list[Tensor], forced_prefixes: ForcedPrefixes) -> None:
        """Take in the states (N, channels) of what all hypotheses of a document begin with."""
        groups, beam = forced_prefixes.history.ancestor.shape[:2]
        self.state = new[0].new_zeros(groups, beam, new[0].shape[1])
        ends = on_device(forced_prefixes.ends, self.state.device)
        self.state[forced_prefixes.groups] = new[0].index_select(0, ends).unsqueeze(1).expand(-1, beam, -1)

    def reorder(self, groups: Tensor, beams: Tensor) -> None:
        """Let hypotheses change places; unlike keys and values, states are not found by ``History``."""
        if self.state is not None:
            self.state = self.state[groups[:, None], beams]
