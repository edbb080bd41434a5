"""Examples with context before and behind: one sentence counts, in a text that is cut to what a model takes."""

from __future__ import annotations

import random

import pytest

from gtransformer.evaluation.capacity import Capacity
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.evaluation.suites.example import Example, score_examples
from tests.core.evaluation.any_system import SYSTEMS, make_system, score_by_hand

SHAPES = [(4, 4), (2, 1), (0, 3), (1, 0), (0, 0)]  # sentences before and behind
# What a model takes, and how many sentences are left of each shape.
CAPACITIES = {
    "all": (Capacity(), SHAPES),
    "single": (Capacity(1, 1), [(0, 0)] * 5),
    "two": (Capacity(2, 2), [(1, 0), (1, 0), (0, 1), (1, 0), (0, 0)]),
    "three": (Capacity(3, 3), [(2, 0), (2, 0), (0, 2), (1, 0), (0, 0)]),
    "nothing behind": (Capacity(3, 3, behind=False), [(2, 0), (2, 0), (0, 0), (1, 0), (0, 0)]),
    "tokens": (Capacity(tokens=30), [(4, 1), (2, 1), (0, 3), (1, 0), (0, 0)]),
}


def made_examples() -> list[Example]:
    """Sentences of 3 words, five tokens with their marks; wrong candidates of 2, 3 and 5 words."""
    draw = random.Random(5)
    sentence = lambda words=3: " ".join(draw.choices([f"w{i}" for i in range(12)], k=words))  # noqa: E731
    examples = []
    for number, (before, behind) in enumerate(SHAPES):
        source = tuple(sentence() for _ in range(before + 1 + behind))
        left, right = ([sentence() for _ in range(count)] for count in (before, behind))
        candidates = tuple((*left, sentence(words), *right) for words in (3, 2, 5, 3))
        examples.append(Example(number, source, candidates, 0, False, {}, behind))
    return examples


@pytest.mark.parametrize("cut", CAPACITIES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_scores_by_hand(dictionary, system, cut):
    capacity, left = CAPACITIES[cut]
    model = make_system(system, dictionary)
    encode = lambda texts: [[dictionary.index(word) for word in one.split()] for one in texts]  # noqa: E731
    scorer, examples = SentenceScorer(model, dictionary, dictionary, 100), made_examples()
    found = score_examples(scorer, examples, encode, encode, capacity=capacity)
    for result, example, (before, behind) in zip(found, examples, left, strict=True):
        at = len(example.source) - 1 - example.behind
        own = slice(at - before, at + behind + 1)
        expected = [
            score_by_hand(model, dictionary, encode(example.source[own]), encode(text[own]), before)
            for text in example.candidates
        ]
        assert list(result.scores) == pytest.approx(expected, abs=1e-9)
        assert result.context == (before, behind)
        assert len({round(score, 4) for score in expected}) == 4, "candidates must differ"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_whole_candidates_of_more_sentences_than_a_model_takes(dictionary, most):
    """Sentence by sentence, each behind as much context as there is room for."""
    encode = lambda texts: [[dictionary.index(word) for word in one.split()] for one in texts]  # noqa: E731
    model = make_system("transformer", dictionary)
    source = ("w1 w2", "w3 w4 w5", "w6 w7", "w8")
    candidates = (("w2 w1", "w4 w3", "w5 w6", "w9"), ("w2", "w4 w4", "w5 w6 w7", "w9 w9"))
    example = Example(0, source, candidates, 0, True)
    scorer = SentenceScorer(model, dictionary, dictionary)
    (found,) = score_examples(scorer, [example], encode, encode, capacity=Capacity(most, most))
    for score, text in zip(found.scores, candidates, strict=True):
        expected = 0.0
        for end in range(1, len(source) + 1):
            own = slice(max(0, end - most), end)
            expected += score_by_hand(model, dictionary, encode(source[own]), encode(text[own]), min(end, most) - 1)
        assert score == pytest.approx(expected, abs=1e-9)
    assert found.context == (most - 1, 0)


def test_what_stands_behind_matters(dictionary):
    """On the source side to all that see it; on the target side to windows by the whole length alone."""
    encode = lambda texts: [[dictionary.index(word) for word in one.split()] for one in texts]  # noqa: E731
    source = ("w1 w2", "w3 w4 w5", "w6 w7")
    target = ("w2 w1", "w4 w3", "w5 w6")
    longer = ("w2 w1", "w4 w3", "w5 w6 w5 w6 w5 w6 w5 w6")
    examples = [Example(0, source, (target, longer), 0, False, {}, 1), Example(1, source[:2], (target[:2],), 0, False)]
    for system in SYSTEMS:
        scorer = SentenceScorer(make_system(system, dictionary), dictionary, dictionary)
        (one, other), (alone,) = (found.scores for found in score_examples(scorer, examples, encode, encode))
        assert scorer.minds_length == (system == "window linear")
        assert (one == pytest.approx(other, abs=1e-9)) != scorer.minds_length
        if system in ("transformer", "lst"):
            assert abs(one - alone) > 1e-4
