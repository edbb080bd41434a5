"""Ways through a document around the beam search: which sentences are translated together, behind which others.

A way is a list of windows. Each window is searched as a whole: its source is encoded anew, what its translation begins
with has been chosen before and is forced, and its last sentences are new. Pure functions of sentence lengths; walk.py
goes the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gtransformer.errors import UserError

FULL, SEQUENTIAL, SLIDING = STRATEGIES = ("full", "sequential", "sliding")


@dataclass(frozen=True)
class SentenceWindow:
    """Sentences of a document, counted from 0.

    Attributes:
        first, last: [first, last) of the source.
        forced: the translation begins with sentences [forced, new), which were chosen before.
        new: sentences [new, last) are translated.
    """

    first: int
    forced: int
    new: int
    last: int


@dataclass(frozen=True)
class Strategy:
    """A way through documents.

    full: the document at once. sequential: a sentence at a time, behind its context (SD of Herold and Ney 2023).
    sliding: the first window as long as it may be; each later one has at least one new sentence, as much context as
    there is room for, and what else follows (Zhang et al. 2023).

    Attributes:
        kind: of STRATEGIES.
        tokens: W, most source tokens of a window, ``<s>`` and ``</s>`` counted; None: no limit.
        context, target_context: of sequential, most previous sentences of source and target; None: no limit.
    """

    kind: str = FULL
    tokens: int | None = None
    context: int | None = None
    target_context: int | None = None

    def __post_init__(self) -> None:
        """Raise UserError for values that cannot be."""
        if self.kind not in STRATEGIES:
            raise UserError(f"--strategy {self.kind} is unknown; choose one of {', '.join(STRATEGIES)}")
        if self.tokens is not None and self.kind == FULL:
            raise UserError(
                f"--window-tokens {self.tokens} means nothing with --strategy full; leave it out, or give --strategy "
                "sliding or sequential"
            )
        if self.tokens is not None and self.tokens < 1:
            raise UserError(f"--window-tokens {self.tokens}: give at least 1")
        if self.tokens is None and self.kind == SLIDING:
            raise UserError("--strategy sliding needs --window-tokens W, the most source tokens of a window; give it")
        if self.context is not None and self.kind != SEQUENTIAL:
            raise UserError(
                f"--context-sentences {self.context} means nothing with --strategy {self.kind}; leave it out, or give "
                "--strategy sequential"
            )
        if self.context is not None and self.tokens is not None:
            raise UserError("--strategy sequential takes --context-sentences or --window-tokens, not both; give one")
        for name, value in (("context", self.context), ("target-context", self.target_context)):
            if value is not None and value < 1:
                raise UserError(
                    f"--{name}-sentences {value}: --strategy sequential translates behind at least 1 sentence; without "
                    "context leave --strategy out"
                )

    def windows(self, lengths: Sequence[int], document: int = 0) -> list[SentenceWindow]:
        """The way through a document.

        Args:
            lengths: source tokens of its sentences, ``<s>`` and ``</s>`` included.
            document: its number, from 0, for messages.

        Raises UserError for a sentence that is longer than a window.
        """
        if self.kind == FULL:
            return [SentenceWindow(0, 0, 0, len(lengths))]
        for number, length in enumerate(lengths, start=1):
            self.check_sentence(length, document + 1, number)
        found, new = [], 0
        while new < len(lengths):
            first = self._begin(lengths, new)
            last = new + 1
            if self.kind == SLIDING:
                room = self.tokens - sum(lengths[first:last])
                while last < len(lengths) and lengths[last] <= room:
                    room -= lengths[last]
                    last += 1
            forced = first if self.target_context is None else max(0, new - self.target_context)
            found.append(SentenceWindow(first, forced, new, last))
            new = last
        return found

    def _begin(self, lengths: Sequence[int], new: int) -> int:
        """The first sentence of the longest context that sentence ``new`` can have."""
        first, tokens = new, lengths[new]
        least = 0 if self.context is None else max(0, new - self.context)
        while first > least and (self.tokens is None or tokens + lengths[first - 1] <= self.tokens):
            first -= 1
            tokens += lengths[first]
        return first

    def check_sentence(self, length: int, document: int, sentence: int) -> None:
        """Raise UserError for a sentence of ``length`` tokens that no window holds; its place is counted from 1."""
        if self.tokens is not None and length > self.tokens:
            raise UserError(
                f"sentence {sentence} of document {document} has {length} source tokens with <s> and </s>, more than "
                f"--window-tokens {self.tokens}: give {length} or more"
            )

    def cost(self, lengths: Sequence[int]) -> int:
        """Source tokens of the longest window of a document: what it takes of a batch at a time."""
        ways = self.windows(lengths)
        return max((sum(lengths[window.first : window.last]) for window in ways), default=0)
