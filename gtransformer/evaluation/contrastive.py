"""Contrastive accuracy: does a model prefer the right translation of an item to the wrong ones, in
its context? The context is cut to the largest input that the model was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path

from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.evaluation.accuracy import Outcome
from gtransformer.evaluation.sentence_scores import (
    Progress,
    Request,
    SentenceScorer,
    TokenLists,
    size,
)
from gtransformer.models.common.model import needs_of
from gtransformer.preprocess.chain import prepared_settings
from gtransformer.preprocess.suites import Item


@dataclass(frozen=True)
class Capacity:
    """The longest instance that a model was trained on; a single sentence is never too long.

    Attributes:
        sentences, target_sentences: most sentences of source and target; None: any number.
        tokens: most tokens, including ``<s>`` and ``</s>``; None: any number.
        longer_side: count a sentence's tokens on its longer side; else on the target side.
    """

    sentences: int | None = None
    target_sentences: int | None = None
    tokens: int | None = None
    longer_side: bool = False

    def before(self, source: Sequence[int], target: Sequence[int]) -> tuple[int, int]:
        """Return how many source and target sentences the last one is scored with, itself included.

        ``source``, ``target``: lengths in tokens, ``<s>`` and ``</s>`` included, of as many
        sentences.
        """
        fitting = len(source)
        if self.tokens is not None:
            costs = map(max, source, target) if self.longer_side else target
            # Tokens from each sentence to the last one, which is read however long it is.
            sums = accumulate(reversed(list(costs)))
            fitting = max(1, sum(tokens <= self.tokens for tokens in sums))
        return (
            min(fitting, self.sentences or fitting),
            min(fitting, self.target_sentences or fitting),
        )


def capacity_of(scheme: InstanceScheme, prepared: Path) -> Capacity:
    """Return the capacity that follows from the options saved with a model.

    Args:
        scheme: of the model's task.
        prepared: a corpus prepared like the training corpus. It gives the length of stored
            instances.
    """
    if scheme.kind == STORED:
        settings = prepared_settings(prepared)
        most, tokens = settings.get("max_sents"), settings.get("max_instance_tokens")
        return Capacity(most, most, None if tokens is None else tokens - 1, longer_side=True)
    # Stored and greedy instances have fewer tokens than their limit, parts have as many.
    if scheme.kind == "greedy":
        return Capacity(tokens=scheme.tokens - 1, longer_side=True)
    if scheme.kind == "parts":
        return Capacity(tokens=scheme.tokens)
    most = scheme.context + 1
    if scheme.kind == "current":
        return Capacity(most, (scheme.target_context or 0) + 1)
    return Capacity(most, most)


Encode = Callable[[Sequence[str]], TokenLists]


def score_items(
    scorer: SentenceScorer,
    items: Sequence[Item],
    encode_source: Encode,
    encode_target: Encode,
    progress: Progress = iter,
    capacity: Capacity | None = None,
) -> list[Outcome]:
    """Score every candidate of every item, each in its context; outcomes in the order of ``items``.

    An item is solved if its right candidate is strictly more probable than every wrong one. A wrong
    candidate with the right one's tokens has its score. Details: ``scores`` (natural logarithm), by
    candidate; ``context``, the number of source sentences that the model read before the last one.

    The candidates of an item share one source, which is encoded once. Context is cut to
    ``capacity``, if given, by the right candidate's length. Whole candidates with more sentences
    than the model takes are scored sentence by sentence, each with as much context as fits.

    Args:
        encode_source, encode_target: convert sentences of each language to token indices.
    """
    sources = _encoded(encode_source, (item.source for item in items))
    targets = _encoded(encode_target, (text for item in items for text in item.candidates))
    capacity = capacity or Capacity()
    by_item, contexts = [], []
    for item in items:
        source = [sources[sentence] for sentence in item.source]
        candidates = [[targets[sentence] for sentence in text] for text in item.candidates]
        by_candidate, context = _requests(item, source, candidates, scorer, capacity)
        by_item.append(by_candidate)
        contexts.append(context)
    requests = chain.from_iterable(chain.from_iterable(by_item))
    scores = iter(scorer.score(list(requests), progress))
    outcomes = []
    for item, by_candidate, context in zip(items, by_item, contexts, strict=True):
        # Several requests of a candidate: its sentences were scored one by one.
        each = [sum(sum(next(scores)) for _ in parts) for parts in by_candidate]
        written = [[request.target for request in parts] for parts in by_candidate]
        # Batching changes the last digits of a score. Texts of the same tokens must be equal, or
        # rounding would decide.
        right = written[item.correct]
        each = [
            each[item.correct] if text == right else score
            for text, score in zip(written, each, strict=True)
        ]
        wrong = each[: item.correct] + each[item.correct + 1 :]
        outcomes.append(
            Outcome(item, each[item.correct] > max(wrong), {"scores": each, "context": context})
        )
    return outcomes


def _requests(
    item: Item,
    source: TokenLists,
    candidates: list[TokenLists],
    scorer: SentenceScorer,
    capacity: Capacity,
) -> tuple[list[list[Request]], int]:
    """Return the requests of each candidate, and the number of source sentences before the last
    one.
    """
    name = f"item {item.id}"
    if not item.whole:
        lengths = (
            [size([sentence]) for sentence in side] for side in (source, candidates[item.correct])
        )
        # By the right candidate for all, so that they are compared in the same context.
        read, written = capacity.before(*lengths)
        source = source[-read:]
        return [
            [Request(source, text[-written:], (written - 1,), name)] for text in candidates
        ], read - 1
    most = min(capacity.sentences or len(source), len(source))
    single = needs_of(scorer.model).last_sentence_only
    written = 1 if single else capacity.target_sentences or len(source)
    # The model cannot read the text as a whole.
    if min(most, written) < len(source):
        return [
            sentence_by_sentence(source, text, most, written, name) for text in candidates
        ], most - 1
    return [[Request(source, text, None, name)] for text in candidates], len(source) - 1


def sentence_by_sentence(
    source: TokenLists, target: TokenLists, most: int, written: int, name: str
) -> list[Request]:
    """Return a request for each sentence of a text, with that sentence last.

    ``most``, ``written``: largest number of source and of target sentences in a request.
    """
    requests = []
    for end in range(1, len(source) + 1):
        begin = max(0, end - written)
        requests.append(
            Request(source[max(0, end - most) : end], target[begin:end], (end - begin - 1,), name)
        )
    return requests


def _encoded(encode: Encode, texts: Iterable[Sequence[str]]) -> dict[str, list[int]]:
    """Return the token indices of every different sentence."""
    sentences = list(dict.fromkeys(sentence for text in texts for sentence in text))
    return dict(zip(sentences, encode(sentences), strict=True))
