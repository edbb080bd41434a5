"""Models that read their batch: scores against NumPy, the whole batch at once; what is read."""

from __future__ import annotations

import numpy as np
import pytest

from gtransformer.lab.items.batch_scores import BatchRequest, BatchScorer
from gtransformer.lab.items.items import Item, score_items
from gtransformer.plugin.sentences import SentenceSpan
from tests.core.models.batch_documents import CONTEXT, document, made
from tests.core.models.batch_oracle import BatchOracle
from tests.core.models.test_docflat import ABD, DOCFLAT, MBE

ORACLES = {"C": (DOCFLAT, {}), "ABD both": (ABD, {"batch_attention_in": "both"}), "MBE": (MBE, {})}


@pytest.fixture(params=ORACLES)
def model(dictionary, request):
    kinds, options = ORACLES[request.param]
    return made(dictionary, *kinds, **options)


class SpelledOut:
    """Scores of last sentences, each batch written out: sides are words of the sentences of a document."""

    def __init__(self, model, dictionary):
        self.oracle, self.bos, self.eos = BatchOracle(model), dictionary.bos(), dictionary.eos()

    def row(self, sentences: list[list[int]]) -> list[int]:
        return [token for words in sentences for token in (self.bos, *words, self.eos)]

    def score(self, pairs: list[tuple[list, list]], first: list[int]) -> float:
        """Of the last sentence of the last pair (source and target sentences) of a batch."""
        sources, targets = ([self.row(side) for side in sides] for sides in zip(*pairs, strict=True))
        logits = self.oracle.logits(sources, targets, first)[-1]
        lprobs = logits - np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
        lprobs -= logits.max(axis=1, keepdims=True)
        last = len(pairs[-1][1][-1]) + 1  # words and </s>
        tokens = targets[-1][-last:]
        return sum(lprobs[len(targets[-1]) - last - 1 + at, token] for at, token in enumerate(tokens))


def text(words: list[int]) -> str:
    return " ".join(map(str, words))


def encode(texts: list[str]) -> list[list[int]]:
    return [[int(word) for word in one.split()] for one in texts]


def sentences(side: list[list[int]]) -> list[list[int]]:
    return [tokens[1:-1] for tokens in side]


def window(side: list, at: int) -> list:
    return side[max(0, at - CONTEXT) : at + 1]


@pytest.mark.parametrize("together", [1, 3, 16])
def test_an_item_is_the_last_of_consecutive_sentences(dictionary, model, together):
    """Of its document; sentence 2 of it is not in the corpus, so that no batch goes beyond it."""
    batch = document(dictionary, sentences=5)
    source, target = sentences(batch.source), sentences(batch.target)
    there = [0, 2, 3, 4, 5]  # places of the sentences in the document
    starts = [0, 1, 1, 1, 2]  # index of the sentence that each instance begins with
    spans = [SentenceSpan(0, there[starts[i]], i - starts[i] + 1, (there[i], 1)) for i in range(5)]
    read = lambda i: (source[starts[i] : i + 1], target[starts[i] : i + 1])  # noqa: E731
    wrong = [[5, 6], [7]]
    items = [Item(i, "p", "d", 0, there[i], 1, text(target[i]), tuple(map(text, wrong))) for i in (0, 3, 4)]
    spelled = SpelledOut(model, dictionary)
    for result in score_items(BatchScorer(model, dictionary, dictionary, together), items, spans, read, encode):
        i = result.item.id
        rows = [j for j in range(1 if i else 0, i + 1)][-together:]
        pairs, first = [read(j) for j in rows], [there[starts[j]] + 1 for j in rows]
        expected = []
        for words in (target[i], *wrong):
            given = [*pairs[:-1], (pairs[-1][0], [*pairs[-1][1][:-1], words])]
            expected.append(spelled.score(given, first))
        assert [result.correct, *result.wrong] == pytest.approx(expected, rel=1e-9)


SYSTEMS = {
    **{
        f"{gate} {where}": (DOCFLAT, {"context_gate": gate, "batch_attention_in": where})
        for gate in ("continuous", "discrete", "identity")
        for where in ("encoder", "decoder", "both")
    },
    "no attention across": (DOCFLAT, {"batch_attention_in": "none"}),
    **{f"ABD {where}": (ABD, {"batch_attention_in": where}) for where in ("encoder", "decoder", "both")},
    **{f"MBE {where}": (MBE, {"batch_vector_in": where}) for where in ("encoder", "decoder", "both")},
}
WRONG = ([5, 6, 7, 8], [], [9])  # words in place of the last sentence


def requests_of(dictionary) -> list[BatchRequest]:
    """Of the last sentences of two batches, the reference and wrong ones; the second has no other sentence."""
    batch, found = document(dictionary, sentences=5, begin=4), []
    sides = [[tokens[1:-1] for tokens in side] for side in (batch.source, batch.target)]
    rows = [[side[max(0, i - CONTEXT) : i + 1] for side in sides] for i in range(5)]
    for last in (4, 0):
        before = tuple(BatchRequest(*rows[i], number=batch.first[i]) for i in range(last))
        source, target = rows[last]
        for words in (target[-1], *WRONG):
            scored, given = (len(target) - 1,), [*target[:-1], list(words)]
            found.append(BatchRequest(source, given, scored, before=before, number=batch.first[last]))
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_candidates_of_a_batch_by_numpy(dictionary, name):
    """The whole batch is spelled out for each of them."""
    kinds, options = SYSTEMS[name]
    model = made(dictionary, *kinds, **options)
    requests, spelled = requests_of(dictionary), SpelledOut(model, dictionary)
    scores = BatchScorer(model, dictionary, dictionary, 16).score_tokens(requests)
    for (found,), request in zip(scores, requests, strict=True):
        rows = [*request.before, request]
        expected = spelled.score([(one.source, one.target) for one in rows], [one.number for one in rows])
        assert sum(found) == pytest.approx(expected, rel=1e-9)
