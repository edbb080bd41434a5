"""Models that read their batch: scores against NumPy, the whole batch at once; what is read."""

from __future__ import annotations

import numpy as np
import pytest

from gtransformer.data.sentences import SentenceSpan
from gtransformer.evaluation.batch_scores import BatchScorer
from gtransformer.evaluation.contrastive import IN_BATCH, IN_VIEW, OUT_OF_VIEW, Item, score_items
from gtransformer.evaluation.instances import Capacity
from gtransformer.evaluation.sentence_scores import Request
from gtransformer.evaluation.suites import SEED, Example, score_examples
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


@pytest.mark.parametrize("together", [1, 2, 16])
def test_examples_with_their_own_context_stand_beside_other_examples(dictionary, model, together):
    """Those before it in one permutation, with right candidates, but none that has its sentence.

    The context of each is cut to what the model takes.
    """
    batch = document(dictionary, seed=8, sentences=12)
    source, target = sentences(batch.source), sentences(batch.target)
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


def requests_of(dictionary) -> list[Request]:
    """Of the last sentences of two batches, the reference and wrong ones; the second has no other sentence."""
    batch, found = document(dictionary, sentences=5, begin=4), []
    sides = [[tokens[1:-1] for tokens in side] for side in (batch.source, batch.target)]
    rows = [[side[max(0, i - CONTEXT) : i + 1] for side in sides] for i in range(5)]
    for last in (4, 0):
        before = tuple(Request(*rows[i], number=batch.first[i]) for i in range(last))
        source, target = rows[last]
        for words in (target[-1], *WRONG):
            scored = (len(target) - 1,)
            found.append(Request(source, [*target[:-1], list(words)], scored, before=before, number=batch.first[last]))
    return found


@pytest.mark.parametrize(
    ("name", "max_tokens"), [*((name, 40) for name in SYSTEMS), ("continuous both", 4096), ("continuous both", 1)]
)
def test_candidates_of_a_batch_by_numpy(dictionary, name, max_tokens):
    """The whole batch is spelled out for each of them, however many go through the layers together."""
    kinds, options = SYSTEMS[name]
    model = made(dictionary, *kinds, **options)
    requests, spelled = requests_of(dictionary), SpelledOut(model, dictionary)
    scores = BatchScorer(model, dictionary, dictionary, 16, max_tokens).score_tokens(requests)
    for (found,), request in zip(scores, requests, strict=True):
        rows = [*request.before, request]
        expected = spelled.score([(one.source, one.target) for one in rows], [one.number for one in rows])
        assert sum(found) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["continuous both", "ABD decoder", "MBE both"])
def test_layers_see_the_last_instances_alone(dictionary, name):
    """The candidates of a batch at once."""
    kinds, options = SYSTEMS[name]
    model = made(dictionary, *kinds, **options)
    requests = requests_of(dictionary)[: 1 + len(WRONG)]
    seen = {"encoder": [], "decoder": []}
    for side, counts in seen.items():
        for layer in getattr(model, side).layers:
            layer.register_forward_hook(lambda _, inputs, __, counts=counts: counts.append(inputs[1].layout.batch))
    BatchScorer(model, dictionary, dictionary, 16).score(requests)
    assert seen == {"encoder": [1, 1], "decoder": [len(requests)] * 2}


def test_batches_of_candidates_are_cut(dictionary):
    """To so many tokens in the layers, and in front of them, padded; one request is never too long."""
    requests = requests_of(dictionary)
    scorer = BatchScorer(made(dictionary, *DOCFLAT), dictionary, dictionary, 16)
    assert list(scorer.batches(requests)) == [[*range(8)]]
    rows = [row for one in requests[:4] for row in (*one.before, one)]
    widest = max(sum(len(sentence) + 2 for sentence in row.target) for row in rows)
    scorer.most_in_front = 4 * 5 * widest  # the four candidates of the first batch, of five sentences
    assert list(scorer.batches(requests))[0] == [0, 1, 2, 3]
    scorer.max_tokens = 1
    assert list(scorer.batches(requests)) == [[one] for one in range(8)]
    sizes = [sum(len(sentence) + 2 for sentence in one.target) for one in requests]
    scorer.max_tokens = 2 * max(sizes[:2])
    assert [0, 1] in list(scorer.batches(requests))


TOGETHER, SENTENCES = 3, 8
# Kinds, options, and how many sentences back the batch is read: the current ones of two others, or all of theirs.
READERS = {
    "C both": (DOCFLAT, {}, (2, 2)),
    "C encoder": (DOCFLAT, {"batch_attention_in": "encoder"}, (2, 0)),
    "C decoder": (DOCFLAT, {"batch_attention_in": "decoder"}, (0, 2)),
    "ABD": (ABD, {}, (2 + CONTEXT, 0)),
    "ABD both": (ABD, {"batch_attention_in": "both"}, (2 + CONTEXT, 2 + CONTEXT)),
    "MBE": (MBE, {}, (2 + CONTEXT, 0)),
}


def score(scorer: BatchScorer, sides: list[list[list[int]]], local: int, back: tuple[int, int] = (1, 1)):
    """The last sentence of a document as an item, decided so many sentences back, behind ``local`` others."""
    spans = [SentenceSpan(0, max(0, i - local), min(local, i) + 1, (i, 1)) for i in range(SENTENCES)]
    item = Item(0, "p", "d", 0, SENTENCES - 1, min(back), text(sides[1][-1]), ("5",), *back)

    def read(number: int):
        return tuple(side[max(0, number - local) : number + 1] for side in sides)

    (found,) = score_items(scorer, [item], spans, read, encode)
    return found


@pytest.fixture(params=READERS)
def system(dictionary, request):
    kinds, options, reach = READERS[request.param]
    batch = document(dictionary, sentences=SENTENCES)
    sides = [[tokens[1:-1] or [6] for tokens in side] for side in (batch.source, batch.target)]
    return BatchScorer(made(dictionary, *kinds, **options), dictionary, dictionary, TOGETHER), sides, reach


def test_it_reads_so_far_and_no_farther(system):
    """Another word in a sentence that is read is another score, in one that is not it is the same."""
    scorer, sides, reach = system
    usual = score(scorer, sides, CONTEXT)
    for side, farthest in enumerate(reach):
        for back in range(1, SENTENCES):
            changed = [list(one) for one in sides]
            old = changed[side][-1 - back]
            changed[side][-1 - back] = [7 if old[0] != 7 else 8, *old[1:]]
            same = score(scorer, changed, CONTEXT).wrong == usual.wrong
            assert same == (back > max(farthest, CONTEXT)), (side, back)


def test_what_discloses_is_the_instance_or_the_batch_or_nothing(system):
    """Behind one sentence of context: the two others of the batch reach one farther with theirs than without."""
    scorer, sides, reach = system
    reach = tuple(min(one, 3) for one in reach)  # with one sentence of context instead of two
    far = SENTENCES
    for side in (0, 1):
        for back in range(1, SENTENCES):
            found = score(scorer, sides, 1, (back, far) if side == 0 else (far, back))
            assert found.view == (IN_VIEW if back <= 1 else IN_BATCH if back <= reach[side] else OUT_OF_VIEW)
