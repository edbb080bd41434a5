"""Instances: sentences that a model reads and writes at once, formed when data are loaded.
Functions are pure.

An instance is a run of source sentences and a run of target sentences of one document. Some of them
are *current*, those before are context. Every sentence is current in exactly one instance, and its
translation is taken from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gtransformer.errors import UserError

BOUNDARY_TOKENS = 2  # tokens that <s> and </s> add to a sentence
STORED = "stored"

Ranges = list[tuple[int, int]]  # [first, last) sentences


@dataclass(frozen=True)
class Kind:
    """A way to form instances; to add one, add an entry to ``KINDS``.

    Attributes:
        help: for the option ``--instances``.
        cut: cuts a run of sentences into instances, given the scheme and the sentences' lengths in
            tokens; None: each sentence is current once, after its context.
        tokens: whether it needs ``--instance-tokens``.
        context: the least ``--context-sentences`` that it needs; None: it takes none.
        target_context: whether it takes ``--target-context-sentences``; else both sides have the
            same context.
        by_target: lengths are the target's, if there is one; else the longer side's.
    """

    help: str
    cut: Callable[[InstanceScheme, np.ndarray], Ranges] | None = None
    tokens: bool = False
    context: int | None = None
    target_context: bool = False
    by_target: bool = False


@dataclass(frozen=True)
class InstanceScheme:
    """A scheme by which sentences form instances, as in the task's options; see ``check``.

    Attributes:
        kind: of ``INSTANCE_KINDS``; ``stored``: the instances on disk.
        tokens: N of ``greedy`` and ``parts``.
        context: K of ``disjoint`` (K + 1 sentences form an instance) and ``sliding``, K_s of
            ``current``.
        target_context: K_t of ``current``; None counts as 0.
    """

    kind: str = STORED
    tokens: int | None = None
    context: int | None = None
    target_context: int | None = None

    @classmethod
    def stored_in(cls, task: Mapping[str, Any]) -> InstanceScheme:
        """Read the scheme from the options of a trained model's task; old models have none."""
        numbers = (
            task.get(name)
            for name in ("instance_tokens", "context_sentences", "target_context_sentences")
        )
        return cls(str(task.get("instances") or STORED), *numbers)

    def check(self) -> None:
        """Raise UserError if the numbers that this ``--instances`` needs are missing or too
        small.
        """
        kind = KINDS[self.kind]
        if kind.tokens and (self.tokens is None or self.tokens < 1):
            raise UserError(f"--instances {self.kind} needs --instance-tokens N, 1 or more")
        if kind.context is not None and (self.context is None or self.context < kind.context):
            raise UserError(
                f"--instances {self.kind} needs --context-sentences N, {kind.context} or more"
            )

    @property
    def with_context(self) -> bool:
        """Whether the last sentence of an instance is current and the others are its context."""
        return self.kind != STORED and KINDS[self.kind].cut is None

    @property
    def before_target(self) -> int:
        """Most target sentences before the last one of an instance; 0 if tokens decide."""
        return (self.target_context if KINDS[self.kind].target_context else self.context) or 0

    @property
    def max_sentences(self) -> int | None:
        """Most sentences of an instance, on the side that has more; None if the options set no such
        limit.
        """
        return (
            None
            if KINDS[self.kind].context is None
            else max(self.context or 0, self.before_target) + 1
        )

    @property
    def is_unequal(self) -> bool:
        """Whether an instance may have more sentences on one side than on the other."""
        return (self.context or 0) != self.before_target

    @property
    def single_targets(self) -> bool:
        """Whether no target sentence precedes another; not known for ``stored``, which are as
        prepared.
        """
        return KINDS[self.kind].context is not None and not self.before_target

    @property
    def repeats_targets(self) -> bool:
        """Whether target sentences occur in several instances: in all for which they are
        context.
        """
        return self.with_context and self.before_target > 0


@dataclass(frozen=True)
class Instances:
    """n instances over sentences that are numbered from 0, document by document.

    Attributes:
        source, target: (n, 2) int64, [first, last) sentences of either side.
        current: (n, 2) int64, the sentences that are current: the last ones of both sides.
    """

    source: np.ndarray
    target: np.ndarray
    current: np.ndarray

    def __len__(self) -> int:
        return len(self.current)


def build_instances(
    scheme: InstanceScheme,
    source: np.ndarray,
    target: np.ndarray | None,
    runs: Ranges,
) -> Instances:
    """Build the instances of a scheme from sentences.

    Args:
        scheme: of any kind but ``stored``.
        source, target: (sentences,) lengths in tokens, ``<s>`` and ``</s>`` included; ``target``
        None: text without.
        runs: [first, last) sentences that follow each other in a document; they cover all sentences
            in order.

    Returns:
        instances in the order of their current sentences; none crosses the end of a run.
    """
    kind = KINDS[scheme.kind]
    if scheme.with_context:
        last = np.arange(1, len(source) + 1)
        firsts, ends = np.array(runs, dtype=np.int64).reshape(-1, 2).T
        begin = np.repeat(firsts, ends - firsts)
        contexts = scheme.context or 0, scheme.before_target
        sides = [np.stack([np.maximum(begin, last - 1 - count), last], 1) for count in contexts]
        return Instances(*sides, np.stack([last - 1, last], 1))
    # The longer side limits an instance; in ``parts`` the target does (Herold and Ney 2023).
    costs = source if target is None else target if kind.by_target else np.maximum(source, target)
    cuts = [
        (first + begin, first + end)
        for first, last in runs
        for begin, end in kind.cut(scheme, costs[first:last])
    ]
    whole = np.array(cuts, dtype=np.int64).reshape(-1, 2)
    return Instances(whole, whole, whole)


def sentence_costs(
    source_lengths: Sequence[int], target_lengths: Sequence[int] | None
) -> list[int]:
    """Return each sentence's cost in tokens: the longer side (without a target, the source) and two
    boundary tokens.
    """
    if target_lengths is None:
        return [length + BOUNDARY_TOKENS for length in source_lengths]
    return [
        max(pair) + BOUNDARY_TOKENS for pair in zip(source_lengths, target_lengths, strict=True)
    ]


class Filling:
    """Fills instances with consecutive sentences, one by one (section 2 of the paper).

    A sentence joins the open instance while the sum of costs stays below ``max_tokens`` (and the
    instance below ``max_sents`` sentences); else it opens a new one. A sentence that costs
    ``max_tokens`` or more is an instance of its own.
    """

    def __init__(self, max_tokens: int, max_sents: int | None = None):
        self.max_tokens, self.max_sents = max_tokens, max_sents
        self.tokens = self.sentences = 0  # of the open instance; no sentences: none is open

    def joins(self, cost: int) -> bool:
        """Return whether a sentence of that cost would join the open instance."""
        if not self.sentences or self.tokens + cost >= self.max_tokens:
            return False
        return self.max_sents is None or self.sentences < self.max_sents

    def add(self, cost: int) -> bool:
        """Add the next sentence; return whether it opened an instance."""
        opens = not self.joins(cost)
        if opens:
            self.close()
        self.tokens += cost
        self.sentences += 1
        return opens

    def close(self) -> None:
        """End the open instance, if there is one: no sentence joins it any more."""
        self.tokens = self.sentences = 0


def greedy(costs: Sequence[int], max_tokens: int, max_sents: int | None = None) -> Ranges:
    """Cut consecutive sentences into instances that cover them in order, as ``Filling`` does."""
    filling = Filling(max_tokens, max_sents)
    opening = [position for position, cost in enumerate(costs) if filling.add(cost)]
    return list(pairwise([*opening, len(costs)]))


def disjoint(count: int, size: int) -> Ranges:
    """Cut ``count`` sentences into instances of ``size``; the last one may be shorter."""
    return [(first, min(first + size, count)) for first in range(0, count, size)]


def parts(lengths: np.ndarray, max_tokens: int) -> Ranges:
    """Cut sentences into the fewest parts of roughly equal length with at most ``max_tokens``
    tokens each.

    A sentence longer than that is a part of its own; the text before, between and after such
    sentences is cut separately. m is the smallest possible number of parts. Part j ends at the
    sentence border nearest to j / m of all tokens (the earlier of two), as far as neither it nor
    later parts become too long. ("documents [...] are cut into parts of roughly equal length",
    Herold and Ney 2023; the rule is our choice.) Time is n log n in the number of sentences.

    Args:
        lengths: (sentences,) tokens of each, boundary tokens included.
    """
    cuts: Ranges = []
    first = 0
    for end in [*np.flatnonzero(lengths > max_tokens).tolist(), len(lengths)]:
        cuts += [
            (first + begin, first + stop)
            for begin, stop in _equal_parts(lengths[first:end], max_tokens)
        ]
        if end < len(lengths):
            cuts.append((end, end + 1))
        first = end + 1
    return cuts


def _equal_parts(lengths: np.ndarray, max_tokens: int) -> Ranges:
    """Cut as ``parts`` does, for sentences that are all short enough."""
    # In tokens from the beginning, so that a part is a difference of two borders.
    borders = np.concatenate([[0], np.cumsum(lengths)])
    # Last end of a part from here.
    furthest = (np.searchsorted(borders, borders + max_tokens, side="right") - 1).tolist()
    # Earliest begin of a part that ends here.
    opening = np.searchsorted(borders, borders - max_tokens).tolist()
    earliest = [len(lengths)]  # filled from the end: earliest possible end of each part
    while earliest[-1] > 0:
        earliest.append(opening[earliest[-1]])
    number = len(earliest) - 1
    if not number:
        return []
    shares = borders[-1] * np.arange(1, number) / number
    above = np.searchsorted(borders, shares)
    nearest = above - (shares - borders[above - 1] <= borders[above] - shares)
    ends = [0]
    for border, least in zip(nearest.tolist(), earliest[-2:0:-1], strict=True):
        # The nearest border, moved as far as neither this part nor the later ones get too long.
        ends.append(min(max(border, least, ends[-1] + 1), furthest[ends[-1]]))
    return list(pairwise([*ends, len(lengths)]))


KINDS = {
    STORED: Kind("as prepared"),
    "greedy": Kind(
        "as many as --instance-tokens holds, by prepare.sh's rule",
        cut=lambda scheme, costs: greedy(costs.tolist(), scheme.tokens),
        tokens=True,
    ),
    "disjoint": Kind(
        "--context-sentences + 1 at a time",
        cut=lambda scheme, costs: disjoint(len(costs), scheme.context + 1),
        context=0,
    ),
    "sliding": Kind("each sentence after --context-sentences previous ones", context=1),
    "parts": Kind(
        "documents longer than --instance-tokens in parts of roughly equal length",
        cut=lambda scheme, costs: parts(costs, scheme.tokens),
        tokens=True,
        by_target=True,
    ),
    "current": Kind(
        "each sentence after --context-sentences previous ones of the source and "
        "--target-context-sentences of the target",
        context=0,
        target_context=True,
    ),
}
INSTANCE_KINDS = tuple(KINDS)
