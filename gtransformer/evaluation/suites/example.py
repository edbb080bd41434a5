"""An example of a contrastive suite: a source text in context and several translations, of which one is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gtransformer.evaluation.capacity import Capacity
from gtransformer.evaluation.contrastive import accuracy
from gtransformer.evaluation.layouts import TokenLists
from gtransformer.evaluation.sentence_scores import Beside, Request, SentenceScorer, size
from gtransformer.evaluation.suites.mates import mates


@dataclass(frozen=True)
class Example:
    """Source sentences and candidate translations of all of them, the ``correct``-th being right.

    ``whole``: a candidate's score is that of all its sentences, else of one only, the others being its context: those
    before it and the last ``behind``. ``groups`` says under what the example is reported: ``{"phenomenon": "it:er",
    "distance": "1"}``.
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

    @property
    def correct(self) -> float:
        """The right candidate's score."""
        return self.scores[self.example.correct]

    @property
    def wrong(self) -> tuple[float, ...]:
        """The scores of all others."""
        return tuple(score for number, score in enumerate(self.scores) if number != self.example.correct)

    @property
    def solved(self) -> bool:
        """Whether the right candidate is strictly better than all others."""
        return all(self.correct > wrong for wrong in self.wrong)

    @property
    def group(self) -> None:
        """No other example depends on this one."""
        return None


Encode = Callable[[Sequence[str]], TokenLists]


def score_examples(
    scorer: SentenceScorer,
    examples: Sequence[Example],
    encode_source: Encode,
    encode_target: Encode,
    progress: Callable[[Iterable], Iterable] = lambda batches: batches,
    capacity: Capacity | None = None,
) -> list[ExampleScores]:
    """Score every candidate of every example, each in its context; results in the order of ``examples``.

    ``encode_*`` turn sentences of either language into token indices. The candidates of an example share one source,
    which is encoded once. Context is cut to ``capacity``, if there is one, by the right candidate's length. What stands
    behind the sentence in question of a target cannot change its probability and is left out, but for models whose
    windows lie by the target's length. Whole candidates of more sentences than the model takes are scored sentence by
    sentence, each behind as much context as it takes; so they are by models that read their batch, which is what stands
    before in the candidate. Of other examples, which hold their own context alone, the batch is drawn (``mates``), with
    right candidates (Wu et al. 2023, section 4.2: "irrelevant global context").
    Raises UserError for an example that is longer than the model takes.
    """
    sources = _encoded(encode_source, (example.source for example in examples))
    targets = _encoded(encode_target, (text for example in examples for text in example.candidates))
    capacity = capacity or Capacity()
    if scorer.in_batches:  # of either side the last sentence is the one that the batch's others may read
        capacity = replace(capacity, behind=False)
    requests, contexts = [], []
    alone: dict[int, Beside] = {}  # by number: the example with its right candidate
    for number, example in enumerate(examples):
        source = [sources[sentence] for sentence in example.source]
        candidates = [[targets[sentence] for sentence in text] for text in example.candidates]
        at = len(source) - 1 - example.behind
        around = target_around = range(len(source))
        asked = None
        if not example.whole:
            lengths = ([size([sentence]) for sentence in side] for side in (source, candidates[example.correct]))
            around, target_around = capacity.around(*lengths, at)
            asked = (at - target_around.start,)
        end = target_around.stop if example.whole or scorer.minds_length else at + 1
        name = f"example {example.id}"
        one_by_one = scorer.last_only or scorer.in_batches or (capacity.sentences or len(source)) < len(source)
        if example.whole and one_by_one:
            most = capacity.sentences or len(source)
            written = 1 if scorer.last_only else capacity.target_sentences or len(source)
            ends = range(1, len(source) + 1)
            sides = [(source[max(0, end - most) : end], slice(max(0, end - written), end)) for end in ends]
            parts = [[Beside(read, text[write], write.start + 1) for read, write in sides] for text in candidates]
            requests.append([one_after_the_other(text, scorer.together, name) for text in parts])
            around = range(max(0, len(source) - most), len(source))
        else:
            source = source[around.start : around.stop]
            texts = [text[target_around.start : end] for text in candidates]
            requests.append([[Request(source, text, asked, name)] for text in texts])
            alone[number] = Beside(source, texts[example.correct])
        contexts.append((at - around.start, around.stop - at - 1))
    if scorer.together > 1:
        for number, before in _drawn(examples, alone, scorer.together - 1):
            requests[number] = [[replace(one, before=before) for one in parts] for parts in requests[number]]
    scores = iter(scorer.score([one for candidates in requests for parts in candidates for one in parts], progress))
    return [
        ExampleScores(example, tuple(sum(sum(next(scores)) for _ in parts) for parts in candidates), context)
        for example, candidates, context in zip(examples, requests, contexts, strict=True)
    ]


def _drawn(
    examples: Sequence[Example], alone: dict[int, Beside], count: int
) -> Iterator[tuple[int, tuple[Beside, ...]]]:
    """The examples that hold their own context alone, by number, and what is to stand before each in its batch."""
    numbers, own, context = list(alone), [], []
    for example in map(examples.__getitem__, numbers):
        sides = example.source, example.candidates[example.correct]
        at = len(example.source) - 1 - example.behind
        own.append({side[at] for side in sides})
        context.append({sentence for side in sides for sentence in (*side[:at], *side[at + 1 :])})
    for number, others in zip(numbers, mates(own, context, count), strict=True):
        yield number, tuple(alone[numbers[other]] for other in others)


def one_after_the_other(parts: Sequence[Beside], together: int, name: str) -> list[Request]:
    """Each part with the ones before it, at most ``together`` with itself; its last sentence is in question."""
    found = []
    for at, one in enumerate(parts):
        before = tuple(parts[max(0, at - together + 1) : at])
        found.append(Request(one.source, one.target, (len(one.target) - 1,), name, before, one.number))
    return found


def _encoded(encode: Encode, texts: Iterable[Sequence[str]]) -> dict[str, list[int]]:
    """Every different sentence with its token indices."""
    sentences = list(dict.fromkeys(sentence for text in texts for sentence in text))
    return dict(zip(sentences, encode(sentences), strict=True))


def report(scores: Sequence[ExampleScores]) -> dict:
    """Accuracy in total and by every kind of group, and by distance within each phenomenon.

    An example counts under a kind only if it belongs to one of its groups.
    """
    kinds = list(dict.fromkeys(kind for score in scores for kind in score.example.groups))
    result = {"total": accuracy(scores)}
    for kind in kinds:
        result[f"by_{kind}"] = _by(scores, kind)
    if {"phenomenon", "distance"} <= set(kinds):
        result["by_phenomenon_and_distance"] = {
            name: _by([score for score in scores if score.example.groups.get("phenomenon") == name], "distance")
            for name in result["by_phenomenon"]
        }
    return result


def _by(scores: Sequence[ExampleScores], kind: str) -> dict:
    groups: dict[str, list[ExampleScores]] = {}
    for score in scores:
        if kind in score.example.groups:
            groups.setdefault(score.example.groups[kind], []).append(score)
    # Digits sort before ">3", and that before words.
    return {name: accuracy(groups[name]) for name in sorted(groups)}
