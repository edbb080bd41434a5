"""The sentence rule: what a translated document may go on with (Bao et al. 2021, section 4.3).

A document has exactly as many sentences as its source, each within limits of its own. What may come next depends on the
prefix alone, so the rule has three parts: the state of a prefix, read off it or counted along token by token; which
token has no alternative between two sentences; and which words may come inside one. Both searches
(``beam.BeamSearch``, ``generator.DocumentSearch``) ask here.

States are numpy arrays on the host in the one, tensors on the model's device in the other: what is computed with them
is written with what both have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gtransformer.data.group_tags import group_tags, tag_of_newest

Array = np.ndarray | Tensor


@dataclass
class SentenceState:
    """What the rule knows of prefixes that begin with ``<s>``; (documents, beam) int64 arrays or tensors.

    Attributes:
        newest: the last token.
        complete: how many sentences have ended, the number of ``</s>``.
        words: tokens behind the last ``<s>``; inside a sentence these are its words so far.
    """

    newest: Array
    complete: Array
    words: Array

    def select(self, index) -> SentenceState:
        """Return the states that ``index`` selects from every field."""
        return SentenceState(self.newest[index], self.complete[index], self.words[index])

    def replace(self, document: int, other: SentenceState) -> None:
        """Replace the rows of a document by those of ``other``, a state of one document."""
        self.newest[document], self.complete[document] = other.newest[0], other.complete[0]
        self.words[document] = other.words[0]


@dataclass(frozen=True)
class SentenceRule:
    """Documents of a target language, ``<s> words </s> <s> words </s> [de]``, whose first ``<s>`` is given.

    A ``</s>`` that the length limit forces keeps the model's score, so that running on is not rewarded; tokens without
    a choice (``<s>`` behind ``</s>``, the language symbol at the end) cost nothing.

    Attributes:
        bos, eos, language: indices of ``<s>``, ``</s>`` and the language symbol that ends a document.
        forbidden: (n,) int64, what never stands inside a sentence: ``<s>``, padding, languages, ``<mask>``.
        min_len: fewest words of a sentence; a lower limit of a sentence wins.
    """

    bos: int
    eos: int
    language: int
    forbidden: Tensor
    min_len: int

    def on(self, device: torch.device) -> SentenceRule:
        """The same rule for log probabilities on a device."""
        return replace(self, forbidden=self.forbidden.to(device))

    def start(self, documents: int, beam: int, complete: Sequence[int] | int = 0) -> SentenceState:
        """The state behind the given ``<s>``, as arrays; ``complete``: sentences (of each document) before it."""
        shape = documents, beam
        ended = np.broadcast_to(np.reshape(complete, (-1, 1)), shape).astype(np.int64)
        return SentenceState(np.full(shape, self.bos), ended, np.zeros(shape, dtype=np.int64))

    def read(self, prefixes: Tensor) -> SentenceState:
        """The state of prefixes (documents, beam, length) int64, whatever they hold behind their ``<s>``."""
        length = prefixes.shape[-1]
        position = torch.arange(length, device=prefixes.device)
        opened = position.masked_fill(prefixes.ne(self.bos), -1).amax(dim=-1)
        return SentenceState(prefixes[..., -1], prefixes.eq(self.eos).sum(dim=-1), length - 1 - opened)

    def advance(self, state: SentenceState, tokens: Array) -> SentenceState:
        """The state of the prefixes with one more token each, of the same shape."""
        return SentenceState(
            newest=tokens,
            complete=state.complete + (tokens == self.eos),
            words=(state.words + 1) * (tokens != self.bos),
        )

    def between(self, state: SentenceState) -> Array:
        """Where a prefix stands between two sentences, or behind the last: the next token has no alternative."""
        return state.newest == self.eos

    def tags(self, state: SentenceState) -> Array:
        """Group tags of the newest tokens (``data.group_tags``) of prefixes that keep to the rule.

        As many ``<s>`` as sentences have ended, and the one that opened the current sentence.
        """
        return state.complete + ~self.between(state)

    def without_choice(self, state: SentenceState, sentences: Array) -> Array:
        """The token that must come between sentences: ``<s>``, or the language symbol behind the last sentence.

        ``sentences``: (documents, 1), how many each document has.
        """
        more = state.complete < sentences
        return more * self.bos + ~more * self.language

    def length_bounds(self, state: SentenceState, limits: Array) -> tuple[Array, Array]:
        """Whether the current sentence is too short to end, and whether it must end: bool, shaped like the state.

        Where both hold it must: a limit goes before ``min_len``. ``limits``: (documents, most sentences), the words
        that each may have.
        """
        current = state.complete.clip(max=limits.shape[1] - 1)
        limit = limits.gather(1, current) if isinstance(limits, Tensor) else np.take_along_axis(limits, current, 1)
        return state.words < self.min_len, state.words >= limit

    def restrict(self, lprobs: Tensor, short: Tensor, full: Tensor) -> None:
        """Leave rows that are inside a sentence what may come next.

        Args:
            lprobs: (rows, vocabulary), changed in place.
            short, full: int64 indices of the rows whose sentence is too short to end, or must end (``length_bounds``).
        """
        end = lprobs[:, self.eos].clone()
        lprobs.index_fill_(1, self.forbidden, -torch.inf)
        if len(short):
            lprobs[short, self.eos] = -torch.inf
        if len(full):
            lprobs[full] = -torch.inf
            lprobs[full, self.eos] = end[full]


def sentence_length_limits(src_tokens: Tensor, bos: int, words: Tensor, a: float, b: float) -> tuple[Tensor, Tensor]:
    """Longest translation of each source sentence: a * (its words) + b.

    Args:
        src_tokens: (batch, length) int64.
        words: (batch, length) bool, True at words (not ``<s>``, ``</s>``, padding or languages).

    Returns:
        limits (batch, most sentences) int64, 0 where there is no sentence; sentences (batch,) int64.
    """
    sentences = tag_of_newest(src_tokens, bos)
    most = max(1, int(sentences.max()))
    counts = torch.zeros(len(src_tokens), most + 1, dtype=torch.int64, device=src_tokens.device)
    counts.scatter_add_(1, group_tags(src_tokens, bos), words.long())
    limits = (a * counts[:, 1:].double() + b).long()
    real = torch.arange(most, device=src_tokens.device) < sentences.unsqueeze(1)
    return limits.masked_fill(~real, 0), sentences
