"""CXMI: the gain in a reference's log probability from context (Fernandes et al. 2021; by word: 2023).

    CXMI = log q(y | x, C) - log q(y | x),    q one model, C up to N previous sentences

This is the mean over a corpus's tokens, in nats; ``</s>`` is a token, ``<s>`` is given. P-CXMI is the same for one
word: the sum over its pieces, which follow the same words of its sentence in both terms. Every sentence is last, after
its context; on the target side the context is the reference. If the model or the document has no more context, both
terms are the same. So a model without context has exactly 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gtransformer.evaluation.accuracy import standard_error
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.lab.items.batch_scores import BatchRequest, BatchScorer
from gtransformer.lab.items.items import current_in, instances_before
from gtransformer.lab.items.split_instances import CorpusInstances
from gtransformer.preprocess.bpe import SEPARATOR
from gtransformer.preprocess.pieces import SPACE, spelled

ALL_CONTEXT = None  # as much context as the model takes
SIGNATURE = "cxmi|unit:nats|mean:tokens|side:{}|context:previous"
BOTH_SIDES, SOURCE_SIDE = "both", "source"  # sides with context
CHUNK = 512  # sentences at a time: requests of a whole corpus with all contexts would fill the memory
MIN_OCCURRENCES = 10  # occurrences of a word in the list of most helped words
WORDS_SHOWN = 20
END_SYMBOL = "</s>"


@dataclass(frozen=True)
class SentenceTokens:
    """Log probabilities of a sentence's tokens under every context: ``scores[c][t]``, natural logarithm.

    ``context[c]``: how many previous sentences were read. ``tokens``: indices of its pieces without ``</s>``.
    """

    document: int
    sentence: int
    tokens: list[int]
    scores: list[list[float]]
    context: list[int]


def context_name(most: int | None) -> str:
    """Return a context's name in results: ``"0"``, ``"1"`` ... or ``"all"``."""
    return "all" if most is ALL_CONTEXT else str(most)


def score_contexts(
    scorer: SentenceScorer,
    corpus: CorpusInstances,
    contexts: Sequence[int | None],
    progress: Callable[[Iterable], Iterable] = lambda chunks: chunks,
) -> list[SentenceTokens]:
    """Return the scores of every sentence of a split under every context, in the order of the split.

    Args:
        corpus: an instance for each sentence, which is last, with as much context as the model takes.
        contexts: numbers of previous sentences, or ``ALL_CONTEXT``.
        progress: wraps the list of chunks of sentences.

    For models that read their batch, it has N sentences before the scored one, none of which reads farther back. Equal
    requests of two contexts are scored once.
    """
    current = current_in(corpus.spans)
    numbers = range(len(corpus.spans))
    found: list[SentenceTokens] = []
    for begin in progress(range(0, len(numbers), CHUNK)):
        chunk = numbers[begin : begin + CHUNK]
        requests: list[BatchRequest] = []
        indices: list[list[int]] = []  # per sentence and context: its request
        for number in chunk:
            together = scorer.together if isinstance(scorer, BatchScorer) else 1
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
            indices.append(row)
        scores = scorer.score_tokens(requests)
        for number, row in zip(chunk, indices, strict=True):
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


def _reach(scorer: SentenceScorer, request: BatchRequest) -> int:
    """Return how many sentences back the context reaches, including the batch."""
    reach = [len(request.source) - 1, len(request.target) - 1]
    for back, one in zip(range(len(request.before), 0, -1), request.before, strict=True):
        needs = scorer.model.needs
        for sentences, is_read in ((one.source, needs.sources), (one.target, needs.targets)):
            if is_read:
                reach.append(back + (len(sentences) - 1 if needs.contexts else 0))
    return max(reach)


def _whole(corpus: CorpusInstances, current: dict, number: int, together: int) -> BatchRequest:
    """Return a sentence's request with all context that the model takes, and its batch's previous sentences."""
    span = corpus.spans[number]
    document, sentence = span.document, span.current[0]
    before = tuple(
        BatchRequest(*corpus.read(one), number=corpus.spans[one].first_sentence + 1)
        for one in instances_before(document, sentence, current, together)
    )
    source, target = corpus.read(number)
    name = f"sentence {sentence} of document {document}"
    return BatchRequest(source, target, (len(target) - 1,), name, before, span.first_sentence + 1)


def cut(whole: BatchRequest, most: int | None) -> BatchRequest:
    """Return a request that scores the last target sentence, with at most ``most`` previous sentences on each side."""
    if most is ALL_CONTEXT:
        return whole
    before = whole.before[max(0, len(whole.before) - most) :]
    kept = tuple(
        replace(one, **_last(one, most - back)) for back, one in zip(range(len(before), 0, -1), before, strict=True)
    )
    shorter = _last(whole, most)
    return replace(whole, scored=(len(shorter["target"]) - 1,), before=kept, **shorter)


def _last(one: BatchRequest, most: int) -> dict[str, Any]:
    """Return the last sentences of both sides with at most ``most`` previous ones, and the number of the first."""
    kept = one.target[-(most + 1) :]
    number = one.number + len(one.target) - len(kept)
    return {"source": one.source[-(most + 1) :], "target": kept, "number": number}


def report(found: Sequence[SentenceTokens], contexts: Sequence[int | None], side: str = BOTH_SIDES) -> dict:
    """Return for each context the mean log probability of a token, CXMI with its standard error over documents, and two
    means over sentences: of their sums, and of their token means, which is the average in the authors' code.

    ``contexts[0]`` is without context; ``side``: the sides with context, ``BOTH_SIDES`` or ``SOURCE_SIDE``.
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
            "standard_error": None if error is None else error / 100,  # an accuracy's is in points
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
    """Return each token's gain in log probability from context ``number``; ``</s>`` is the last."""
    return [more - less for more, less in zip(one.scores[number], one.scores[0], strict=True)]


def spans(pieces: Sequence[str], sentencepiece: bool) -> Iterator[tuple[str, int, int]]:
    """Yield the words of a sentence and the range [first, last) of their pieces; ``sentencepiece``: else BPE."""
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
    """Return the P-CXMI of every word, as a JSON object per sentence: ``words``, with ``</s>`` last, and ``p_cxmi`` by
    context.

    ``symbols[i]`` is the piece of index i.
    """
    for one in found:
        words = list(spans([symbols[token] for token in one.tokens], sentencepiece))
        word_spans = [*words, (END_SYMBOL, len(one.tokens), len(one.tokens) + 1)]
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
    """Return the words with the highest mean P-CXMI under a context, of at least ``MIN_OCCURRENCES``."""
    gains: dict[str, list[float]] = {}
    for row in rows:
        for word, gain in zip(row["words"], row["p_cxmi"][name], strict=True):
            gains.setdefault(word, []).append(gain)
    means = [
        {"word": word, "occurrences": len(values), "p_cxmi": math.fsum(values) / len(values)}
        for word, values in gains.items()
        if len(values) >= MIN_OCCURRENCES
    ]
    return sorted(means, key=lambda one: (-one["p_cxmi"], one["word"]))[:WORDS_SHOWN]
