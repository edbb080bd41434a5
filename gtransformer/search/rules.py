"""The sentence rule: how a translated document may continue (Bao et al. 2021, section 4.3).

A document has exactly as many sentences as its source, each within its own length limits. What may
follow depends on the prefix alone. So the rule has three parts: the state of a prefix, updated
token by token; the tokens without an alternative between two sentences; the words that are allowed
inside a sentence. ``FreeText`` is the search without the rule.

States are numpy arrays on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gtransformer.data.group_tags import group_tags, tag_of_newest


@dataclass
class SentenceState:
    """State of prefixes that begin with ``<s>``; (documents, beam) int64.

    Attributes:
        newest: the last token.
        complete: the number of complete sentences, which is the number of ``</s>``.
        words: tokens after the last ``<s>``; inside a sentence these are its words so far.
    """

    newest: np.ndarray
    complete: np.ndarray
    words: np.ndarray

    def select(self, index) -> SentenceState:
        """Return the states that ``index`` selects from every field."""
        return SentenceState(self.newest[index], self.complete[index], self.words[index])


@dataclass(frozen=True)
class SentenceRule:
    """The rule for documents ``<s> words </s> <s> words </s> [de]``, whose first ``<s>`` is given.

    A ``</s>`` that the length limit forces keeps the model's score, so that overlong sentences are
    not rewarded. Tokens without an alternative (``<s>`` after ``</s>``, the language symbol at the
    end) cost nothing.

    Attributes:
        bos, eos, language: indices of ``<s>``, ``</s>`` and the language symbol that ends a
        document.
        forbidden: (n,) int64, symbols that never occur inside a sentence: ``<s>``, padding,
            languages, ``<mask>``.
        min_len: fewest words of a sentence; a lower limit of a sentence has precedence.
        prefix: index of a word that every sentence begins with, the language's of models for many
            languages; it is given, as ``<s>`` is, and does not count as one of the sentence's
            words. None: there is none.
    """

    bos: int
    eos: int
    language: int
    forbidden: np.ndarray
    min_len: int
    prefix: int | None = None

    @property
    def end(self) -> int:
        """The symbol that ends what a limit is for: a sentence."""
        return self.eos

    def start(self, documents: int, beam: int, complete: Sequence[int] | int = 0) -> SentenceState:
        """Return the state after the given ``<s>``, as arrays; ``complete``: sentences (of each
        document) before it.
        """
        shape = documents, beam
        ended = np.broadcast_to(np.reshape(complete, (-1, 1)), shape).astype(np.int64)
        return SentenceState(np.full(shape, self.bos), ended, np.zeros(shape, dtype=np.int64))

    def advance(self, state: SentenceState, tokens: np.ndarray) -> SentenceState:
        """Return the state of the prefixes with one more token each, of the same shape."""
        given = tokens == self.bos
        if self.prefix is not None:
            given |= tokens == self.prefix
        # Zero after a given token: the next one is the sentence's first word.
        words = (state.words + 1) * ~given
        return SentenceState(tokens, state.complete + (tokens == self.eos), words)

    def between(self, state: SentenceState) -> np.ndarray:
        """Return where the next token has no alternative: after a sentence, and for the given word
        at its start.
        """
        ended = state.newest == self.eos
        return ended if self.prefix is None else ended | (state.newest == self.bos)

    def tags(self, state: SentenceState) -> np.ndarray:
        """Return group tags of the newest tokens (``data.group_tags``) of prefixes that keep the
        rule.

        These count the complete sentences, plus the current one inside a sentence.
        """
        return state.complete + (state.newest != self.eos)

    def without_choice(self, state: SentenceState, sentences: np.ndarray) -> np.ndarray:
        """Return the token that must follow: ``<s>``, the language symbol after the last sentence,
        or the given word.

        ``sentences``: (documents, 1), how many each document has.
        """
        more = state.complete < sentences
        found = more * self.bos + ~more * self.language
        if self.prefix is None:
            return found
        begun = state.newest == self.bos
        return begun * self.prefix + ~begun * found

    def length_bounds(
        self, state: SentenceState, limits: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return whether the current sentence is too short to end, and whether it must end: bool,
        shaped like the state.

        If both hold it must end: a limit has precedence over ``min_len``. ``limits``: (documents,
        most sentences), the most words of each sentence.
        """
        current = state.complete.clip(max=limits.shape[1] - 1)
        return state.words < self.min_len, state.words >= np.take_along_axis(limits, current, 1)


class FreeText(SentenceRule):
    """No rule: a document is any text of its own length limit, and the model's own language symbol
    ends it.

    ``complete`` counts ``<s>``, ``words`` all tokens after the given one. ``limits`` (documents,
    1): the most tokens of a document before the symbol that ends it. ``forbidden``: padding.
    """

    @property
    def end(self) -> int:
        """The symbol that ends a document."""
        return self.language

    def start(self, documents: int, beam: int, complete: Sequence[int] | int = 1) -> SentenceState:
        """Return the state after the given ``<s>``."""
        return super().start(documents, beam, 1)

    def advance(self, state: SentenceState, tokens: np.ndarray) -> SentenceState:
        """Return the state of the prefixes with one more token each."""
        return SentenceState(tokens, state.complete + (tokens == self.bos), state.words + 1)

    def between(self, state: SentenceState) -> np.ndarray:
        """Return that every token has alternatives."""
        return np.zeros(state.newest.shape, dtype=bool)

    def tags(self, state: SentenceState) -> np.ndarray:
        """Return group tags of the newest tokens."""
        return state.complete

    def length_bounds(
        self, state: SentenceState, limits: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return whether the document is too short to end, and whether it must end."""
        return state.words < self.min_len, state.words >= limits


NO_LIMIT = 10**9  # words of a sentence: above it, sums over a document would not fit int64


def sentence_length_limits(
    src_tokens: Tensor, bos: int, words: Tensor, a: float, b: float
) -> tuple[Tensor, Tensor]:
    """Return the most words of the translation of each source sentence: a * (its words) + b, at
    least 1 if it has any.

    Args:
        src_tokens: (batch, length) int64.
        words: (batch, length) bool, True at words (not ``<s>``, ``</s>``, padding or languages).

    Returns:
        limits (batch, most sentences) int64, 0 if there is no such sentence; sentences (batch,)
        int64.
    """
    sentences = tag_of_newest(src_tokens, bos)
    most = max(1, int(sentences.max()))
    counts = torch.zeros(len(src_tokens), most + 1, dtype=torch.int64, device=src_tokens.device)
    # Words of every source sentence, counted by their group tags; column 0 is padding.
    counts.scatter_add_(1, group_tags(src_tokens, bos), words.long())
    limits = (
        (a * counts[:, 1:].double() + b)
        .clamp(max=NO_LIMIT)
        .long()
        .maximum(counts[:, 1:].clamp(max=1))
    )
    real = torch.arange(most, device=src_tokens.device) < sentences.unsqueeze(1)
    return limits.masked_fill(~real, 0), sentences
