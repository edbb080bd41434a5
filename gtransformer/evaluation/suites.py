"""Examples of published contrastive suites: a text in context and several translations, one of them right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gtransformer.evaluation.accuracy import accuracy, is_solved, ties
from gtransformer.evaluation.accuracy import report as accuracy_report
from gtransformer.evaluation.instances import Capacity
from gtransformer.evaluation.sentence_scores import Progress, Request, SentenceScorer, TokenLists, silent, size
from gtransformer.evaluation.suite_files import Example

Encode = Callable[[Sequence[str]], TokenLists]


@dataclass(frozen=True)
class ExampleScores:
    """Log probabilities (natural logarithm) of an example's candidates, in their order.

    ``context``: number of source sentences that the model read before the last one.
    """

    example: Example
    scores: tuple[float, ...]
    context: int = 0
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
    the right candidate's length. Whole candidates with more sentences than the model takes are scored sentence by
    sentence, each with as much context as fits. A wrong candidate with the right one's tokens has its score.

    Args:
        encode_source, encode_target: convert sentences of each language to token indices.
    """
    sources = _encoded(encode_source, (example.source for example in examples))
    targets = _encoded(encode_target, (text for example in examples for text in example.candidates))
    capacity = capacity or Capacity()
    requests, contexts = [], []  # by example: requests by candidate
    for example in examples:
        source = [sources[sentence] for sentence in example.source]
        candidates = [[targets[sentence] for sentence in text] for text in example.candidates]
        name = f"example {example.id}"
        read = len(source)
        if example.whole:
            most = capacity.sentences or len(source)
            written = 1 if scorer.translates_last_sentence_only else capacity.target_sentences or len(source)
            if min(most, written) < len(source):
                read = min(most, len(source))
                requests.append([sentence_by_sentence(source, text, most, written, name) for text in candidates])
            else:
                requests.append([[Request(source, text, None, name)] for text in candidates])
        else:
            lengths = ([size([sentence]) for sentence in side] for side in (source, candidates[example.correct]))
            read, written = capacity.before(*lengths)
            source = source[-read:]
            requests.append([[Request(source, text[-written:], (written - 1,), name)] for text in candidates])
        contexts.append(read - 1)
    scores = iter(scorer.score([one for candidates in requests for parts in candidates for one in parts], progress))
    found = []
    for example, candidates, context in zip(examples, requests, contexts, strict=True):
        each = [sum(sum(next(scores)) for _ in parts) for parts in candidates]
        right = example.correct
        same = [[one.target for one in parts] == [one.target for one in candidates[right]] for parts in candidates]
        each = [each[right] if equal else score for score, equal in zip(each, same, strict=True)]
        found.append(ExampleScores(example, tuple(each), context))
    return found


def sentence_by_sentence(source: TokenLists, target: TokenLists, most: int, written: int, name: str) -> list[Request]:
    """Return a request for each sentence of a text, with that sentence last.

    ``most``, ``written``: largest number of source and of target sentences in a request.
    """
    requests = []
    for end in range(1, len(source) + 1):
        begin = max(0, end - written)
        requests.append(Request(source[max(0, end - most) : end], target[begin:end], (end - begin - 1,), name))
    return requests


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
    return accuracy_report(scores, accuracy, "phenomenon", kinds, within) | ties(scores)
