"""Examples with context before and behind: one sentence counts, in a text that is cut to what a model takes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from gtransformer.evaluation.instances import Capacity
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.evaluation.suites import Example, ExampleScores, batch_neighbours, report, score_examples
from tests.core.evaluation.any_system import SYSTEMS, make_system, score_by_hand
from tests.core.models.test_document_transformer import beside_model

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


@pytest.mark.parametrize(
    ("system", "cut"), [*((system, "three") for system in SYSTEMS), *(("window linear", cut) for cut in CAPACITIES)]
)
def test_scores_by_hand(dictionary, encode, system, cut):
    capacity, left = CAPACITIES[cut]
    model = make_system(system, dictionary)
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
    examples = [replace(one, candidates=(*one.candidates, one.candidates[0])) for one in examples]
    found = score_examples(scorer, examples, encode, encode, capacity=capacity)
    assert all(result.scores[0] == result.scores[-1] for result in found)
    total = report(found)
    assert total["total"]["solved"] == 0 and total["tied"] == len(examples)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_whole_candidates_of_more_sentences_than_a_model_takes(dictionary, encode, most):
    """Sentence by sentence, each behind as much context as there is room for."""
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


def test_what_stands_behind_matters(dictionary, encode):
    """On the source side to all that see it; on the target side to windows by the whole length alone."""
    source = ("w1 w2", "w3 w4 w5", "w6 w7")
    target = ("w2 w1", "w4 w3", "w5 w6")
    longer = ("w2 w1", "w4 w3", "w5 w6 w5 w6 w5 w6 w5 w6")
    examples = [Example(0, source, (target, longer), 0, False, {}, 1), Example(1, source[:2], (target[:2],), 0, False)]
    for system in SYSTEMS:
        scorer = SentenceScorer(make_system(system, dictionary), dictionary, dictionary)
        (one, other), (alone,) = (found.scores for found in score_examples(scorer, examples, encode, encode))
        assert scorer.depends_on_length == (system == "window linear")
        assert (one == pytest.approx(other, abs=1e-9)) != scorer.depends_on_length
        if system in ("transformer", "lst"):
            assert abs(one - alone) > 1e-4


SOURCE = ("w1 w2", "w3", "w4 w5 w6", "w7")
CANDIDATES = (("w2", "w2 w2", "w5", "w1 w3"), ("w2", "w2 w4", "w5", "w6"))


@torch.no_grad()
@pytest.mark.parametrize("whole", [True, False])
def test_scores_are_forced_decodings_of_single_sentences(dictionary, encode, whole):
    """Each sentence with up to two previous ones, as the model was trained; spelled out, one pair at a time."""
    model = beside_model(dictionary)
    bos, eos = dictionary.bos(), dictionary.eos()

    def alone(number: int, text: str) -> float:
        read = encode(SOURCE[max(0, number - 2) : number + 1])
        source = torch.tensor([[token for sentence in read for token in (bos, *sentence, eos)]])
        (words,) = encode([text])
        lprobs = model(source, None, torch.tensor([[bos, *words]]))[0].log_softmax(dim=2)[0]
        return sum(float(lprobs[place, token]) for place, token in enumerate([*words, eos]))

    examples = [Example(0, SOURCE, CANDIDATES, 0, whole), Example(1, SOURCE[:1], (("w3",), ("w4 w4",)), 1, whole)]
    scorer = SentenceScorer(model, dictionary, dictionary)
    found = score_examples(scorer, examples, encode, encode, capacity=Capacity(3, 1, behind=False))
    for example, scores in zip(examples, found, strict=True):
        for text, score in zip(example.candidates, scores.scores, strict=True):
            each = [alone(number, sentence) for number, sentence in enumerate(text)]
            assert score == pytest.approx(sum(each) if whole else each[-1], abs=1e-9)


def test_all_stand_beside_as_many_others_of_any_part_of_the_file():
    """Each is a neighbour of as many, never its own, and neighbours of a batch are not those of the file."""
    own = [{str(number)} for number in range(200)]
    found = batch_neighbours(own, [set()] * 200, 15)
    assert found == batch_neighbours(own, [set()] * 200, 15)
    assert all(len(set(one)) == 15 and number not in one for number, one in enumerate(found))
    assert set(Counter(other for one in found for other in one).values()) == {15}
    near = sum(abs(other - number) <= 15 for number, one in enumerate(found) for other in one)
    assert near < 0.3 * 200 * 15  # of 15 of 200, drawn, some 15 % are; in the file's order all
    for number, one in enumerate(found):  # a batch is the longer one's end
        assert batch_neighbours(own, [set()] * 200, 3)[number] == one[-3:]


def test_none_has_its_sentence():
    """In either language, as its own or as context; another takes its place."""
    draw = random.Random(1)
    own = [{f"e{draw.randrange(30)}", f"d{draw.randrange(30)}"} for _ in range(100)]
    context = [{f"e{draw.randrange(30)}", f"d{draw.randrange(30)}"} for _ in range(100)]
    found = batch_neighbours(own, context, 15)
    for number, one in enumerate(found):
        assert len(one) == 15
        for other in one:
            assert not own[other] & (own[number] | context[number]) and not own[number] & context[other]


def test_fewer_where_there_are_no_more():
    assert batch_neighbours([{"a"}, {"a"}, {"b"}], [set(), {"b"}, set()], 5)[0] == [2]
    assert batch_neighbours([{"a"}, {"a"}, {"b"}], [set(), {"b"}, set()], 5)[1:] == [[], [0]]
    assert batch_neighbours([{"a"}], [set()], 5) == [[]] and batch_neighbours([], [], 5) == []


def test_report():
    def made(phenomenon: str, distance: str | None, correct: int, *scores: float) -> ExampleScores:
        groups = {"phenomenon": phenomenon} | ({"distance": distance} if distance else {})
        return ExampleScores(Example(0, ("a",), (("b",),) * len(scores), correct, True, groups), scores)

    result = report([
        made("x", ">3", 1, -2.0, -1.0), made("x", "1", 0, -2.0, -2.0), made("x", "1", 0, -1.0, -2.0, -3.0),
        made("y", None, 2, -1.0, -1.5, -1.2),
    ])  # fmt: skip
    assert (result["total"]["solved"], result["total"]["items"]) == (2, 4), "a tie is not solved"
    assert {key: (part["solved"], part["items"]) for key, part in result["by_phenomenon"].items()} == {
        "x": (2, 3), "y": (0, 1),
    }  # fmt: skip
    assert [(key, part["solved"]) for key, part in result["by_distance"].items()] == [("1", 1), (">3", 1)]
    assert result["by_phenomenon_and_distance"]["y"] == {}
    assert result["total"]["mean_margin"] == pytest.approx((1 + 0 + 1 - 0.2) / 4)
