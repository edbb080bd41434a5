"""Examples of published contrastive suites: a text in context and several translations, one of them right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gtransformer.evaluation.accuracy import accuracy, is_solved, ties
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.instances import Capacity
from gtransformer.evaluation.sentence_scores import Progress, Request, SentenceScorer, TokenLists, silent, size

SEED = 1  # of the drawn batch neighbours
# Description of the draw in result files.
DRAWN = {"from": "permutation of all examples", "seed": SEED, "left_out": "its sentence or context in common"}
Encode = Callable[[Sequence[str]], TokenLists]


@dataclass(frozen=True)
class Example:
    """Source sentences and candidate translations of all of them, the ``correct``-th being right.

    Attributes:
        whole: a candidate's score is over all its sentences. Otherwise it is over one sentence, followed by the last
            ``behind``; all others are its context.
        groups: groups of the example in the report: ``{"phenomenon": "it:er", "distance": "1"}``.
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

    ``context``: number of source sentences that the model read before the scored one, and behind it.
    """

    example: Example
    scores: tuple[float, ...]
    context: tuple[int, int] = (0, 0)
    group: None = None  # no other example depends on this one

    @property
    def correct(self) -> float:
        """The score of the right candidate."""
        return self.scores[self.example.correct]

    @property
    def wrong(self) -> tuple[float, ...]:
        """The scores of the wrong candidates."""
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

    The candidates of an example share one source, which is encoded once. Context is cut to ``capacity``, if given, by
    the right candidate's length. Target sentences behind the scored one cannot change its probability and are left out.
    Exception: models whose windows depend on the target's length.

    Whole candidates with more sentences than the model takes are scored sentence by sentence, each with as much context
    as fits. So are whole candidates by models that read their batch; the batch is the candidate's previous sentences.
    For other examples, which contain only their own context, the batch is drawn (``batch_neighbours``), with right
    candidates (Wu et al. 2023, section 4.2: "irrelevant global context"). A wrong candidate with the right one's tokens
    has its score.

    Args:
        encode_source, encode_target: convert sentences of each language to token indices.

    Raises UserError for an example that is too long for the model.
    """
    sources = _encoded(encode_source, (example.source for example in examples))
    targets = _encoded(encode_target, (text for example in examples for text in example.candidates))
    capacity = capacity or Capacity()
    if scorer.in_batches:  # other instances of the batch read the last sentence of each side
        capacity = replace(capacity, behind=False)
    requests, contexts = [], []  # by example: requests by candidate
    alone: dict[int, Request] = {}  # example number -> the example with its right candidate
    for number, example in enumerate(examples):
        source = [sources[sentence] for sentence in example.source]
        candidates = [[targets[sentence] for sentence in text] for text in example.candidates]
        at, name = len(source) - 1 - example.behind, f"example {example.id}"
        most = capacity.sentences or len(source)
        around = target_around = range(len(source))
        scored = None
        if not example.whole:
            lengths = ([size([sentence]) for sentence in side] for side in (source, candidates[example.correct]))
            around, target_around = capacity.around(*lengths, at)
            scored = (at - target_around.start,)
        if example.whole and (scorer.translates_last_sentence_only or scorer.in_batches or most < len(source)):
            written = 1 if scorer.translates_last_sentence_only else capacity.target_sentences or len(source)
            requests.append([sentence_by_sentence(scorer, source, text, (most, written), name) for text in candidates])
            around = range(max(0, len(source) - most), len(source))
        else:
            end = target_around.stop if example.whole or scorer.depends_on_length else at + 1
            source = source[around.start : around.stop]
            texts = [text[target_around.start : end] for text in candidates]
            requests.append([[Request(source, text, scored, name)] for text in texts])
            alone[number] = Request(source, texts[example.correct])
        contexts.append((at - around.start, around.stop - at - 1))
    if scorer.together > 1:
        own, context = [], []  # of each single example, its sentence and the context sentences, in both languages
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
    found = []
    for example, candidates, context in zip(examples, requests, contexts, strict=True):
        each = [sum(sum(next(scores)) for _ in parts) for parts in candidates]
        right = example.correct
        same = [[one.target for one in parts] == [one.target for one in candidates[right]] for parts in candidates]
        each = [each[right] if equal else score for score, equal in zip(each, same, strict=True)]
        found.append(ExampleScores(example, tuple(each), context))
    return found


def sentence_by_sentence(
    scorer: SentenceScorer, source: TokenLists, target: TokenLists, most: tuple[int, int], name: str
) -> list[Request]:
    """Return a request for each sentence of a text, with that sentence last; previous requests are its batch.

    ``most``: largest number of source and of target sentences in a request.
    """
    parts = []
    for end in range(1, len(source) + 1):
        first, begin = (max(0, end - count) for count in most)
        scored = (end - begin - 1,)  # the last one
        parts.append(Request(source[first:end], target[begin:end], scored, name, (), begin + 1))
    return [replace(one, before=tuple(parts[max(0, at - scorer.together + 1) : at])) for at, one in enumerate(parts)]


def batch_neighbours(
    own: Sequence[AbstractSet[str]], context: Sequence[AbstractSet[str]], count: int
) -> list[list[int]]:
    """Return for each example the numbers of ``count`` others (fewer if not enough are allowed), in batch order.

    They precede it in one cyclic permutation of all examples. In the file's order, neighbours have the same answer and
    share text, so a decoder that reads its batch could read the answer there.

    Args:
        own: the text of each example's sentence, in both languages.
        context: the texts of its context sentences. No neighbour's sentence is in the example, and the example's
            sentence is in no neighbour.
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
    """Return the token indices of every different sentence."""
    sentences = list(dict.fromkeys(sentence for text in texts for sentence in text))
    return dict(zip(sentences, encode(sentences), strict=True))


def report(scores: Sequence[ExampleScores]) -> dict[str, Any]:
    """Return accuracy in total, by every kind of group, and by distance within each phenomenon.

    An example counts for a kind only if it has a group of that kind. Digits sort before ">3", and that before words.
    """
    names = list(dict.fromkeys(kind for score in scores for kind in score.example.groups))
    kinds = {kind: lambda score, kind=kind: score.example.groups.get(kind) for kind in names}
    within = ["distance"] if {"phenomenon", "distance"} <= kinds.keys() else []
    return accuracy_report(scores, accuracy, "phenomenon", kinds, names, within) | ties(scores)
