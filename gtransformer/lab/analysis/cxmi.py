"""CXMI: how much more probable a reference is with context than without it (Fernandes et al. 2021; by word: 2023).

    CXMI = log q(y | x, C) - log q(y | x),    q one model, C up to N previous sentences, as the model takes them

mean over the tokens of a corpus, in nats; ``</s>`` is a token, ``<s>`` is given. P-CXMI is the same of one word: the
sum over its pieces, which are predicted behind the same words of its sentence in both terms. Every sentence stands last
behind its context; the context is the reference on the target side. Where a model takes no more context, or the
document has no more, the terms are one and the same, so that a model without context has exactly 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gtransformer.evaluation.accuracy import standard_error
from gtransformer.evaluation.contrastive import current_in, instances_before
from gtransformer.evaluation.instances import CorpusInstances
from gtransformer.evaluation.sentence_scores import Request, SentenceScorer
from gtransformer.preprocess.bpe import SEPARATOR
from gtransformer.preprocess.pieces import SPACE, spelled

ALL = None  # as much context as the model takes
SIGNATURE = "cxmi|unit:nats|mean:tokens|side:{}|context:previous"
BOTH, SOURCE = "both", "source"  # sides that have context
CHUNK = 512  # sentences at a time: requests of a corpus with all contexts would fill the memory
LEAST = 10  # occurrences of a word in the list of those that context helps most
SHOWN = 20
END = "</s>"


@dataclass(frozen=True)
class SentenceTokens:
    """Log probabilities of a sentence's tokens under every context: ``scores[c][t]``, natural logarithm.

    ``context[c]``: how many sentences before it were read. ``tokens``: indices of its pieces, ``</s>`` left out.
    """

    document: int
    sentence: int
    tokens: list[int]
    scores: list[list[float]]
    context: list[int]


def context_name(most: int | None) -> str:
    """How a context is called in results: ``"0"``, ``"1"`` ... or ``"all"``."""
    return "all" if most is ALL else str(most)


def score_contexts(
    scorer: SentenceScorer,
    corpus: CorpusInstances,
    contexts: Sequence[int | None],
    progress: Callable[[Iterable], Iterable] = lambda chunks: chunks,
) -> list[SentenceTokens]:
    """Return every sentence of a split under every context, in the order of the split.

    Args:
        corpus: an instance for each sentence, its last, behind as much context as the model takes.
        contexts: numbers of previous sentences, or ``ALL``.
        progress: wraps the list of chunks of sentences.

    Models that read their batch have N sentences before the one in question in it, none of which reads farther back.
    What two contexts have in common is scored once. Raises UserError for a sentence longer than the model takes.
    """
    current = current_in(corpus.spans)
    numbers = range(len(corpus.spans))
    found: list[SentenceTokens] = []
    for begin in progress(range(0, len(numbers), CHUNK)):
        chunk = numbers[begin : begin + CHUNK]
        requests: list[Request] = []
        asked: list[list[int]] = []  # per sentence and context: its request
        for number in chunk:
            together = scorer.together if scorer.in_batches else 1
            whole = _whole(corpus, current, number, together)
            kinds: dict[tuple[int, ...], int] = {}
            row = []
            for most in contexts:
                request = cut(whole, most)
                sides = ((len(one.source), len(one.target)) for one in (*request.before, request))
                kind = tuple(size for side in sides for size in side)
                if kind not in kinds:
                    kinds[kind] = len(requests)
                    requests.append(request)
                row.append(kinds[kind])
            asked.append(row)
        scores = scorer.score_tokens(requests)
        for number, row in zip(chunk, asked, strict=True):
            span = corpus.spans[number]
            found.append(
                SentenceTokens(
                    span.document,
                    span.current[0],
                    requests[row[0]].target[-1],
                    [scores[one][0] for one in row],
                    [_reach(scorer, requests[one]) for one in row],
                )
            )
    return found


def _reach(scorer: SentenceScorer, request: Request) -> int:
    """Return how many sentences back the context goes that is read, those of its batch among them."""
    beside = scorer.reach(request.before) if request.before else ()
    return max(len(request.source) - 1, len(request.target) - 1, *beside)


def _whole(corpus: CorpusInstances, current: dict, number: int, together: int) -> Request:
    """Return a sentence behind all the context that the model takes, beside the sentences before it of its batch."""
    span = corpus.spans[number]
    document, sentence = span.document, span.current[0]
    before = tuple(
        Request(*corpus.read(one), number=corpus.spans[one].first_sentence + 1)
        for one in instances_before(document, sentence, current, together)
    )
    source, target = corpus.read(number)
    name = f"sentence {sentence} of document {document}"
    return Request(source, target, (len(target) - 1,), name, before, span.first_sentence + 1)


def cut(whole: Request, most: int | None) -> Request:
    """Return a request whose last target sentence is in question, with at most so many sentences before it on either
    side.
    """
    if most is ALL:
        return whole
    before = whole.before[max(0, len(whole.before) - most) :]
    kept = tuple(
        replace(one, **_last(one, most - back)) for back, one in zip(range(len(before), 0, -1), before, strict=True)
    )
    shorter = _last(whole, most)
    return replace(whole, scored=(len(shorter["target"]) - 1,), before=kept, **shorter)


def _last(one: Request, most: int) -> dict[str, Any]:
    """Return the last sentences of both sides with at most ``most`` previous ones, and the number of the first."""
    kept = one.target[-(most + 1) :]
    number = one.number + len(one.target) - len(kept)
    return {"source": one.source[-(most + 1) :], "target": kept, "number": number}


def report(found: Sequence[SentenceTokens], contexts: Sequence[int | None], side: str = BOTH) -> dict:
    """Per context: mean log probability of a token, CXMI with its standard error over documents, and over sentences
    the mean of their sums and that of their means by token, which is how the authors' code averages.

    ``contexts[0]`` is without context; ``side``: which sides have any, ``BOTH`` or ``SOURCE``.
    """
    documents = [one.document for one in found for _ in one.scores[0]]
    result: dict[str, dict] = {}
    for number, most in enumerate(contexts):
        tokens = [score for one in found for score in one.scores[number]]
        gains = [gain for one in found for gain in gains_of(one, number)]
        error = standard_error(gains, documents)
        result[context_name(most)] = {
            "log_probability": math.fsum(tokens) / len(tokens),
            "cxmi": math.fsum(gains) / len(gains),
            "standard_error": None if error is None else error / 100,  # that of an accuracy is in points
            "cxmi_per_sentence": math.fsum(gains) / len(found),
            "cxmi_mean_of_means": math.fsum(statistics.fmean(gains_of(one, number)) for one in found) / len(found),
            "mean_context_sentences": sum(one.context[number] for one in found) / len(found),
        }
    return {
        "signature": SIGNATURE.format(side),
        "documents": len(set(documents)),
        "sentences": len(found),
        "tokens": len(documents),
        "contexts": result,
    }


def gains_of(one: SentenceTokens, number: int) -> list[float]:
    """Of every token, by how much context ``number`` raises its log probability; ``</s>`` is the last."""
    return [more - less for more, less in zip(one.scores[number], one.scores[0], strict=True)]


def spans(pieces: Sequence[str], sentencepiece: bool) -> Iterator[tuple[str, int, int]]:
    """Yield the words of a sentence and where their pieces lie, [first, last); ``sentencepiece``: or else BPE."""
    begin = 0
    for end, piece in enumerate(pieces, 1):
        last = end == len(pieces)
        if last or (pieces[end].startswith(SPACE) if sentencepiece else not piece.endswith(SEPARATOR)):
            word = pieces[begin:end]
            bare = (one.removeprefix(SPACE) if sentencepiece else one.removesuffix(SEPARATOR) for one in word)
            text = "".join(bare)
            yield spelled(text) if sentencepiece else text, begin, end
            begin = end


def by_word(
    found: Sequence[SentenceTokens], contexts: Sequence[int | None], symbols: Sequence[str], sentencepiece: bool
) -> Iterator[dict]:
    """P-CXMI of every word, a JSON object a sentence: ``words``, the last being ``</s>``, and by context ``p_cxmi``.

    ``symbols[i]`` is the piece of index i.
    """
    for one in found:
        words = list(spans([symbols[token] for token in one.tokens], sentencepiece))
        word_spans = [*words, (END, len(one.tokens), len(one.tokens) + 1)]
        gains = {context_name(most): gains_of(one, number) for number, most in enumerate(contexts) if number}
        yield {
            "document": one.document,
            "sentence": one.sentence,
            "words": [word for word, _, _ in word_spans],
            "p_cxmi": {
                name: [math.fsum(values[first:last]) for _, first, last in word_spans] for name, values in gains.items()
            },
        }


def most_helped(rows: Iterable[dict], name: str) -> list[dict]:
    """Return the words, of those that stand at least ``LEAST`` times, with the highest mean P-CXMI under a context."""
    gains: dict[str, list[float]] = {}
    for row in rows:
        for word, gain in zip(row["words"], row["p_cxmi"][name], strict=True):
            gains.setdefault(word, []).append(gain)
    means = [
        {"word": word, "occurrences": len(values), "p_cxmi": math.fsum(values) / len(values)}
        for word, values in gains.items()
        if len(values) >= LEAST
    ]
    return sorted(means, key=lambda one: (-one["p_cxmi"], one["word"]))[:SHOWN]
