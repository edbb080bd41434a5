"""Examples of published contrastive suites: a text in context and several translations, of which one is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gtransformer.evaluation.accuracy import accuracy, is_solved
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.instances import Capacity
from gtransformer.evaluation.sentence_scores import Progress, Request, SentenceScorer, TokenLists, silent, size

SEED = 1  # of the batch neighbours that are drawn
# What a result file says of them.
DRAWN = {"from": "permutation of all examples", "seed": SEED, "left_out": "its sentence or context in common"}
Encode = Callable[[Sequence[str]], TokenLists]


@dataclass(frozen=True)
class Example:
    """Source sentences and candidate translations of all of them, the ``correct``-th being right.

    Attributes:
        whole: a candidate's score is that of all its sentences, else of one only, the others being its context: those
            before it and the last ``behind``.
        groups: under what the example is reported: ``{"phenomenon": "it:er", "distance": "1"}``.
    """

    id: int
    source: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    correct: int
    whole: bool
    groups: dict[str, str] = field(default_factory=dict)
    behind: int = 0


@dataclass(frozen=True)
class ExampleScores:
    """Log probabilities (natural logarithm) of an example's candidates, in their order.

    ``context``: source sentences that the model has read before the one in question, and behind it.
    """

    example: Example
    scores: tuple[float, ...]
    context: tuple[int, int] = (0, 0)
    group: None = None  # no other example depends on this one

    @property
    def correct(self) -> float:
        """The right candidate's score."""
        return self.scores[self.example.correct]

    @property
    def wrong(self) -> tuple[float, ...]:
        """The scores of all others."""
        return tuple(score for number, score in enumerate(self.scores) if number != self.example.correct)

    def to_json(self) -> dict[str, Any]:
        """Return the example and its scores as a JSON object."""
        groups = self.example.groups
        return {"id": self.example.id, **groups, "scores": list(self.scores), "solved": is_solved(self)}


def score_examples(
    scorer: SentenceScorer,
    examples: Sequence[Example],
    encode_source: Encode,
    encode_target: Encode,
    progress: Progress = silent,
    capacity: Capacity | None = None,
) -> list[ExampleScores]:
    """Score every candidate of every example, each in its context; results in the order of ``examples``.

    The candidates of an example share one source, which is encoded once. Context is cut to ``capacity``, if there is
    one, by the right candidate's length. What stands behind the sentence in question of a target cannot change its
    probability and is left out, but for models whose windows lie by the target's length. Whole candidates of more
    sentences than the model takes are scored sentence by sentence, each behind as much context as it takes; so they are
    by models that read their batch, which is what stands before in the candidate. Of other examples, which hold their
    own context alone, the batch is drawn (``batch_neighbours``), with right candidates (Wu et al. 2023, section 4.2:
    "irrelevant global context").

    Args:
        encode_source, encode_target: turn sentences of either language into token indices.

    Raises UserError for an example that is longer than the model takes.
    """
    sources = _encoded(encode_source, (example.source for example in examples))
    targets = _encoded(encode_target, (text for example in examples for text in example.candidates))
    capacity = capacity or Capacity()
    if scorer.in_batches:  # of either side the last sentence is the one that the batch's others may read
        capacity = replace(capacity, behind=False)
    requests, contexts = [], []  # by example: requests by candidate
    alone: dict[int, Request] = {}  # by number: the example with its right candidate
    for number, example in enumerate(examples):
        source = [sources[sentence] for sentence in example.source]
        candidates = [[targets[sentence] for sentence in text] for text in example.candidates]
        at, name = len(source) - 1 - example.behind, f"example {example.id}"
        most = capacity.sentences or len(source)
        around = target_around = range(len(source))
        asked = None
        if not example.whole:
            lengths = ([size([sentence]) for sentence in side] for side in (source, candidates[example.correct]))
            around, target_around = capacity.around(*lengths, at)
            asked = (at - target_around.start,)
        if example.whole and (scorer.translates_last_sentence_only or scorer.in_batches or most < len(source)):
            written = 1 if scorer.translates_last_sentence_only else capacity.target_sentences or len(source)
            requests.append([sentence_by_sentence(scorer, source, text, (most, written), name) for text in candidates])
            around = range(max(0, len(source) - most), len(source))
        else:
            end = target_around.stop if example.whole or scorer.depends_on_length else at + 1
            source = source[around.start : around.stop]
            texts = [text[target_around.start : end] for text in candidates]
            requests.append([[Request(source, text, asked, name)] for text in texts])
            alone[number] = Request(source, texts[example.correct])
        contexts.append((at - around.start, around.stop - at - 1))
    if scorer.together > 1:
        own, context = [], []  # of each example that stands alone, its sentence and those around it, in both languages
        for example in map(examples.__getitem__, alone):
            at = len(example.source) - 1 - example.behind
            sides = example.source, example.candidates[example.correct]
            own.append({side[at] for side in sides})
            context.append({sentence for side in sides for sentence in (*side[:at], *side[at + 1 :])})
        numbers = list(alone)
        for number, others in zip(numbers, batch_neighbours(own, context, scorer.together - 1), strict=True):
            before = tuple(alone[numbers[other]] for other in others)
            requests[number] = [[replace(one, before=before) for one in parts] for parts in requests[number]]
    scores = iter(scorer.score([one for candidates in requests for parts in candidates for one in parts], progress))
    return [
        ExampleScores(example, tuple(sum(sum(next(scores)) for _ in parts) for parts in candidates), context)
        for example, candidates, context in zip(examples, requests, contexts, strict=True)
    ]


def sentence_by_sentence(
    scorer: SentenceScorer, source: TokenLists, target: TokenLists, most: tuple[int, int], name: str
) -> list[Request]:
    """Return a request for each sentence of a text, which is its last; so are those before it in its batch, as far
    back.

    ``most``: sentences of source and target in a request.
    """
    parts = []
    for end in range(1, len(source) + 1):
        first, begin = (max(0, end - count) for count in most)
        asked = (end - begin - 1,)  # the last one
        parts.append(Request(source[first:end], target[begin:end], asked, name, (), begin + 1))
    return [replace(one, before=tuple(parts[max(0, at - scorer.together + 1) : at])) for at, one in enumerate(parts)]


def batch_neighbours(
    own: Sequence[AbstractSet[str]], context: Sequence[AbstractSet[str]], count: int
) -> list[list[int]]:
    """For each example the numbers of ``count`` others, or of all that may be, in the order of their batch.

    They are those before it in one permutation of all examples, whose beginning follows its end. In a file's own order
    neighbours have the same answer and quote each other, and a decoder that reads its batch would read it there.

    Args:
        own: the texts of each example's sentence, in both languages.
        context: those of the sentences around it. No neighbour's sentence is one of the example's, nor the other way
            round.
    """
    order = np.random.RandomState(SEED).permutation(len(own)).tolist()
    found: list[list[int]] = [[] for _ in own]
    for position, number in enumerate(order):
        chosen = found[number]
        for back in range(1, len(order)):
            if len(chosen) == count:
                break
            other = order[position - back]
            if own[other].isdisjoint(own[number] | context[number]) and own[number].isdisjoint(context[other]):
                chosen.append(other)
        chosen.reverse()
    return found


def _encoded(encode: Encode, texts: Iterable[Sequence[str]]) -> dict[str, list[int]]:
    """Return every different sentence with its token indices."""
    sentences = list(dict.fromkeys(sentence for text in texts for sentence in text))
    return dict(zip(sentences, encode(sentences), strict=True))


def report(scores: Sequence[ExampleScores]) -> dict[str, Any]:
    """Accuracy in total and by every kind of group, and by distance within each phenomenon.

    An example counts under a kind only if it belongs to one of its groups. Digits sort before ">3", and that before
    words.
    """
    names = list(dict.fromkeys(kind for score in scores for kind in score.example.groups))
    kinds = {kind: lambda score, kind=kind: score.example.groups.get(kind) for kind in names}
    within = ["distance"] if {"phenomenon", "distance"} <= kinds.keys() else []
    return accuracy_report(scores, accuracy, "phenomenon", kinds, names, within)
