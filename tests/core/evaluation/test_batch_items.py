"""Contrastive items with models that read their batch: against NumPy, the whole batch at once."""

from __future__ import annotations

import numpy as np
import pytest

from gtransformer.data.places import Place
from gtransformer.evaluation.batch_scores import BatchScorer
from gtransformer.evaluation.capacity import Capacity
from gtransformer.evaluation.contrastive import Item, score_items
from gtransformer.evaluation.suites.example import Example, score_examples
from gtransformer.evaluation.suites.mates import SEED
from tests.core.models.batch_documents import CONTEXT, document, made
from tests.core.models.batch_oracle import BatchOracle
from tests.core.models.test_docflat import ABD, DOCFLAT, MBE

SYSTEMS = {"C": (DOCFLAT, {}), "ABD both": (ABD, {"batch_attention_in": "both"}), "MBE": (MBE, {})}


@pytest.fixture(params=SYSTEMS)
def model(dictionary, request):
    kinds, options = SYSTEMS[request.param]
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
    places = [Place(0, there[starts[i]], i - starts[i] + 1, (there[i], 1)) for i in range(5)]
    read = lambda i: (source[starts[i] : i + 1], target[starts[i] : i + 1])  # noqa: E731
    text = lambda words: " ".join(map(str, words))  # noqa: E731
    encode = lambda texts: [[int(word) for word in one.split()] for one in texts]  # noqa: E731
    wrong = [[5, 6], [7]]
    items = [Item(i, "p", "d", 0, there[i], 1, text(target[i]), tuple(map(text, wrong))) for i in (0, 3, 4)]
    spelled = SpelledOut(model, dictionary)
    for result in score_items(BatchScorer(model, dictionary, dictionary, together), items, places, read, encode):
        i = result.item.id
        rows = [j for j in range(1 if i else 0, i + 1)][-together:]
        pairs, first = [read(j) for j in rows], [there[starts[j]] + 1 for j in rows]
        expected = []
        for words in (target[i], *wrong):
            given = [*pairs[:-1], (pairs[-1][0], [*pairs[-1][1][:-1], words])]
            expected.append(spelled.score(given, first))
        assert [result.correct, *result.wrong] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("together", [1, 2, 16])
def test_examples_with_their_own_context_stand_beside_other_examples(dictionary, model, together):
    """Those before it in one permutation, with right candidates, but none that has its sentence.

    The context of each is cut to what the model takes.
    """
    batch = document(dictionary, seed=8, sentences=12)
    source, target = sentences(batch.source), sentences(batch.target)
    text = lambda words: " ".join(map(str, words))  # noqa: E731
    encode = lambda texts: [[int(word) for word in one.split()] for one in texts]  # noqa: E731
    spans, wrong, examples = [(0, 4), (5, 6), (6, 10), (8, 12)], [9, 4], []
    order = 2 * np.random.RandomState(SEED).permutation(len(spans)).tolist()
    for number, (first, last) in enumerate(spans):
        before = tuple(map(text, target[first : last - 1]))
        candidates = (*before, text(wrong)), (*before, text(target[last - 1]))
        examples.append(Example(number, tuple(map(text, source[first:last])), candidates, 1, False))
    scorer = BatchScorer(model, dictionary, dictionary, together)
    found = score_examples(scorer, examples, encode, encode, capacity=Capacity(CONTEXT + 1, CONTEXT + 1, behind=False))
    spelled = SpelledOut(model, dictionary)
    pairs = [tuple(window(side[first:last], last - first - 1) for side in (source, target)) for first, last in spans]
    for number, result in enumerate(found):
        place = order.index(number) + len(spans)
        beside = [one for one in order[place - len(spans) + 1 : place] if {one, number} != {2, 3}]
        rows = [pairs[one] for one in (*beside, number)][-together:]
        expected = []
        for words in (wrong, rows[-1][1][-1]):
            expected.append(spelled.score([*rows[:-1], (rows[-1][0], [*rows[-1][1][:-1], words])], [1] * len(rows)))
        assert list(result.scores) == pytest.approx(expected, rel=1e-9)


def test_whole_texts_are_scored_sentence_by_sentence(dictionary, model):
    """Each behind two previous ones, the batch being what stands before it in the same candidate."""
    batch = document(dictionary, sentences=4)
    source, target = sentences(batch.source), sentences(batch.target)
    text = lambda words: " ".join(map(str, words))  # noqa: E731
    encode = lambda texts: [[int(word) for word in one.split()] for one in texts]  # noqa: E731
    candidates = [target, [target[0], [5, 5], *target[2:]]]
    example = Example(0, tuple(map(text, source)), tuple(tuple(map(text, one)) for one in candidates), 0, True)
    scorer = BatchScorer(model, dictionary, dictionary, together=3)
    (found,) = score_examples(scorer, [example], encode, encode, capacity=Capacity(CONTEXT + 1, CONTEXT + 1))
    spelled = SpelledOut(model, dictionary)
    for one, score in zip(candidates, found.scores, strict=True):
        total = 0.0
        for i in range(4):
            rows = range(max(0, i - 2), i + 1)
            pairs = [(window(source, j), window(one, j)) for j in rows]
            total += spelled.score(pairs, [max(0, j - CONTEXT) + 1 for j in rows])
        assert score == pytest.approx(total, rel=1e-9)
