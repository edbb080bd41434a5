"""Decoding strategies: which sentences of a document are translated together, and with which
context.

A strategy cuts a document into windows. Each window is searched as a whole: its source is encoded
again. Its translation begins with a forced prefix, which was chosen before, and ends with new
sentences. These are pure functions of sentence lengths; sequential.py decodes the windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gtransformer.errors import UserError


@dataclass(frozen=True)
class StrategyKind:
    """A way of decoding documents, for ``--strategy``; to add one, add an entry to
    ``STRATEGY_KINDS``.

    Attributes:
        help: for the option.
        by_window: whether documents are decoded window by window; else each is searched at once.
        context: whether it takes numbers of previous sentences.
        fills: whether a window is filled with further new sentences; it then needs a number of
            tokens.
    """

    help: str
    by_window: bool = True
    context: bool = False
    fills: bool = False


FULL, SEQUENTIAL, SLIDING, PARALLEL = "full", "sequential", "sliding", "parallel"
STRATEGY_KINDS = {
    FULL: StrategyKind("instance by instance", by_window=False),
    SEQUENTIAL: StrategyKind(  # SD of Herold and Ney 2023
        "a sentence at a time after the translations of its context: --context-sentences with "
        "--instances sliding and current, else what fits --window-tokens, or without that all "
        "previous sentences of its instance",
        context=True,
    ),
    SLIDING: StrategyKind(  # Zhang et al. 2023
        "windows of --window-tokens, each after the translations of the sentences that it shares "
        "with the one before",
        fills=True,
    ),
    PARALLEL: StrategyKind(
        "all sentences of an instance at a time, each with a beam of its own after a greedy draft "
        "of the sentences before it; with --beam 1 the result is that of full",
        by_window=False,
    ),
}
STRATEGIES = tuple(STRATEGY_KINDS)
# Further options of decoding, here because commands offer them before PyTorch is loaded. auto: as
# in training.
# Of matrix products (tasks/trained.py).
PRECISIONS = (
    "auto",
    "float32",
    "bfloat16",
    "float16",
    "int8",
)
# Whether a translation must have as many sentences as its source (search/rules.py).
AUTO, ON, OFF = SENTENCE_RULES = ("auto", "on", "off")


def check_sentence_rule(chosen: str, strategy: str) -> None:
    """Raise UserError for a value not in SENTENCE_RULES, and for a strategy that needs the rule."""
    if chosen not in SENTENCE_RULES:
        raise UserError(
            f"--sentence-rule {chosen} is unknown; choose one of {', '.join(SENTENCE_RULES)}"
        )
    if chosen == OFF and strategy != FULL:
        raise UserError(
            f"--sentence-rule off: --strategy {strategy} translates sentence by sentence of the "
            "source; leave one out"
        )


@dataclass(frozen=True)
class SentenceWindow:
    """Sentences of a document, counted from 0.

    Attributes:
        first, last: [first, last) of the source.
        prefix_start: the translation begins with sentences [prefix_start, new), which were chosen
            before.
        new: sentences [new, last) are translated.
    """

    first: int
    prefix_start: int
    new: int
    last: int


@dataclass(frozen=True)
class Strategy:
    """How documents are decoded, with the given numbers.

    Attributes:
        kind: of STRATEGIES.
        tokens: W, most source tokens of a window, ``<s>`` and ``</s>`` counted; None: no limit.
        context, target_context: most previous sentences of source and target; None: no limit.

    Raises UserError for numbers that the kind does not use, or that it lacks.
    """

    kind: str = FULL
    tokens: int | None = None
    context: int | None = None
    target_context: int | None = None

    def __post_init__(self) -> None:
        definition, strategy = self.definition, f"--strategy {self.kind}"
        if self.tokens is not None and not definition.by_window:
            raise UserError(
                f"--window-tokens {self.tokens} has no effect with {strategy}; leave it out"
            )
        if self.tokens is None and definition.fills:
            raise UserError(
                f"{strategy} needs --window-tokens W, the most source tokens of a window; give it"
            )
        if self.context is not None and not definition.context:
            raise UserError(
                f"--context-sentences {self.context} has no effect with {strategy}; leave it out"
            )

    @property
    def definition(self) -> StrategyKind:
        """The kind's entry in ``STRATEGY_KINDS``."""
        return STRATEGY_KINDS[self.kind]

    def windows(self, lengths: Sequence[int]) -> list[SentenceWindow]:
        """Cut a document into windows; a sentence that is longer than a window is one of its own
        (``check_sentence``).

        ``lengths``: source tokens of its sentences, ``<s>`` and ``</s>`` included.
        """
        if not self.definition.by_window:
            return [SentenceWindow(0, 0, 0, len(lengths))]
        found, new = [], 0
        while new < len(lengths):
            first = self._begin(lengths, new)
            last = new + 1
            if self.definition.fills:
                # Further new sentences share the window with the context; the first one always
                # fits.
                free = self.tokens - sum(lengths[first:last])
                while last < len(lengths) and lengths[last] <= free:
                    free -= lengths[last]
                    last += 1
            # Source context that has no target context (current instances) is read but not forced.
            prefix_start = (
                first if self.target_context is None else max(0, new - self.target_context)
            )
            found.append(SentenceWindow(first, prefix_start, new, last))
            new = last
        return found

    def _begin(self, lengths: Sequence[int], new: int) -> int:
        """Return the first sentence of the longest context that sentence ``new`` can have."""
        first, tokens = new, lengths[new]
        least = 0 if self.context is None else max(0, new - self.context)
        while first > least and (self.tokens is None or tokens + lengths[first - 1] <= self.tokens):
            first -= 1
            tokens += lengths[first]
        return first

    def check_sentence(self, length: int, document: int, sentence: int) -> None:
        """Raise UserError for a sentence of ``length`` tokens that no window holds; numbers count
        from 1.
        """
        if self.tokens is not None and length > self.tokens:
            raise UserError(
                f"sentence {sentence} of document {document} has {length} source tokens with <s> "
                f"and </s>, more than --window-tokens {self.tokens}: give {length} or more"
            )

    def cost(self, lengths: Sequence[int]) -> int:
        """Return the source tokens of the longest window of a document: the document's cost in a
        batch.
        """
        return max(
            (sum(lengths[window.first : window.last]) for window in self.windows(lengths)),
            default=0,
        )
