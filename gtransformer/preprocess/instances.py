"""Instances as they are written: consecutive sentences of one document, filled greedily, and the way back.

Pure functions of lists; the rule itself is in ``gtransformer.data.instances``. An instance line is ``<s> a b </s> <s> c
</s>``; a sidecar keeps which sentences of which document each instance holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gtransformer.data.instances import MARKS, greedy, sentence_costs
from gtransformer.errors import UserError

BEGIN, END = "<s>", "</s>"


def greedy_instances(
    source_lengths: Sequence[int],
    target_lengths: Sequence[int] | None,
    max_tokens: int,
    max_sents: int | None = None,
) -> list[tuple[int, int]]:
    """Cut one document into instances ``(first sentence, number of sentences)`` that cover it in order.

    A sentence costs max(source, target) + 2 tokens and joins the current instance while the sum stays below
    ``max_tokens`` (and the instance below ``max_sents`` sentences); else it opens a new one. A sentence that costs
    ``max_tokens`` or more is an instance of its own. Lengths are in tokens, without ``<s>`` and ``</s>``;
    ``target_lengths`` None: text to be translated, cut by source length alone.
    """
    cuts = greedy(sentence_costs(source_lengths, target_lengths), max_tokens, max_sents)
    return [(first, last - first) for first, last in cuts]


def document_instances(
    source_lengths: Sequence[int],
    target_lengths: Sequence[int] | None,
    max_tokens: int,
    max_sents: int | None = None,
    max_sentence_tokens: int | None = None,
) -> tuple[list[tuple[int, int]], list[int]]:
    """``greedy_instances`` of a document less the sentences longer than ``max_sentence_tokens`` (for training).

    Returns the instances and the indices of the dropped sentences, among them those without source words, which no
    model has seen. A dropped sentence closes the current instance, so that an instance is always an unbroken run.
    ``max_sentence_tokens`` counts the longer side without marks.
    """
    costs = sentence_costs(source_lengths, target_lengths)
    limit = float("inf") if max_sentence_tokens is None else max_sentence_tokens + MARKS
    dropped = [position for position, cost in enumerate(costs) if cost > limit or not source_lengths[position]]
    instances: list[tuple[int, int]] = []
    begin = 0
    for end in [*dropped, len(costs)]:
        target = None if target_lengths is None else target_lengths[begin:end]
        for first, count in greedy_instances(source_lengths[begin:end], target, max_tokens, max_sents):
            instances.append((begin + first, count))
        begin = end + 1
    return instances, dropped


def instance_line(sentences: Iterable[str]) -> str:
    """The line of an instance: ``["a b", "c"]`` becomes ``<s> a b </s> <s> c </s>``."""
    return " ".join(f"{BEGIN} {sentence} {END}" if sentence else f"{BEGIN} {END}" for sentence in sentences)


def split_instance(line: str) -> list[str]:
    """The sentences of an instance line. Raises UserError if the line is not made of ``<s> ... </s>``."""
    sentences: list[str] = []
    words: list[str] | None = None
    for word in line.split():
        if word == BEGIN and words is None:
            words = []
        elif word == END and words is not None:
            sentences.append(" ".join(words))
            words = None
        elif words is None or word in (BEGIN, END):
            raise UserError(f"not an instance, {word!r} after {len(sentences)} sentences: {line[:60]!r}")
        else:
            words.append(word)
    if words is not None:
        raise UserError(f"not an instance, the last sentence lacks {END}: {line[-60:]!r}")
    return sentences
