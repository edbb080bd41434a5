"""Examples with context before and behind: one sentence counts, in a text that is cut to what a
model takes.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from gtransformer.evaluation.contrastive import Capacity, score_items
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.preprocess.suites import Item
from tests.core.evaluation.support import SYSTEMS, make_system, score_by_hand
from tests.core.models import test_numpy

BEFORE = [4, 2, 1, 0]  # sentences before the last one
# What a model takes, and how many sentences are left of each example.
CAPACITIES = {
    "all": (Capacity(), BEFORE),
    "single": (Capacity(1, 1), [0] * 4),
    "three": (Capacity(3, 3), [2, 2, 1, 0]),
    "tokens": (Capacity(tokens=17), [2, 2, 1, 0]),
}


def made_examples() -> list[Item]:
    """Sentences of 3 words, five tokens with their marks; wrong candidates of 2, 3 and 5 words."""
    draw = random.Random(5)
    sentence = lambda words=3: " ".join(draw.choices([f"w{i}" for i in range(12)], k=words))  # noqa: E731
    examples = []
    for number, before in enumerate(BEFORE):
        source = tuple(sentence() for _ in range(before + 1))
        left = [sentence() for _ in range(before)]
        candidates = tuple((*left, sentence(words)) for words in (3, 2, 5, 3))
        examples.append(Item(number, source, candidates, ""))
    return examples


@pytest.mark.parametrize(
    ("system", "cut"),
    [*((system, "three") for system in SYSTEMS), *(("window linear", cut) for cut in CAPACITIES)],
)
def test_scores_by_hand(dictionary, encode, system, cut):
    capacity, left = CAPACITIES[cut]
    model = make_system(system, dictionary)
    scorer, examples = SentenceScorer(model, dictionary, dictionary, 100), made_examples()
    found = score_items(scorer, examples, encode, encode, capacity=capacity)
    for result, example, before in zip(found, examples, left, strict=True):
        own = slice(len(example.source) - 1 - before, None)
        expected = [
            score_by_hand(model, dictionary, encode(example.source[own]), encode(text[own]), before)
            for text in example.candidates
        ]
        assert list(result.detail["scores"]) == pytest.approx(expected, abs=1e-9)
        assert result.detail["context"] == before
        assert len({round(score, 4) for score in expected}) == 4, "candidates must differ"
    examples = [replace(one, candidates=(*one.candidates, one.candidates[0])) for one in examples]
    found = score_items(scorer, examples, encode, encode, capacity=capacity)
    assert all(result.detail["scores"][0] == result.detail["scores"][-1] for result in found)
    assert not any(result.solved for result in found)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_whole_candidates_of_more_sentences_than_a_model_takes(dictionary, encode, most):
    """Sentence by sentence, each behind as much context as there is room for."""
    model = make_system("transformer", dictionary)
    source = ("w1 w2", "w3 w4 w5", "w6 w7", "w8")
    candidates = (("w2 w1", "w4 w3", "w5 w6", "w9"), ("w2", "w4 w4", "w5 w6 w7", "w9 w9"))
    example = Item(0, source, candidates, "", whole=True)
    scorer = SentenceScorer(model, dictionary, dictionary)
    (found,) = score_items(scorer, [example], encode, encode, capacity=Capacity(most, most))
    for score, text in zip(found.detail["scores"], candidates, strict=True):
        expected = 0.0
        for end in range(1, len(source) + 1):
            own = slice(max(0, end - most), end)
            expected += score_by_hand(
                model, dictionary, encode(source[own]), encode(text[own]), min(end, most) - 1
            )
        assert score == pytest.approx(expected, abs=1e-9)
    assert found.detail["context"] == most - 1


SOURCE = ("w1 w2", "w3", "w4 w5 w6", "w7")
CANDIDATES = (("w2", "w2 w2", "w5", "w1 w3"), ("w2", "w2 w4", "w5", "w6"))


@torch.no_grad()
@pytest.mark.parametrize("whole", [True, False])
def test_scores_are_forced_decodings_of_single_sentences(dictionary, encode, whole):
    """Each sentence with up to two previous ones, as the model was trained; spelled out, one pair
    at a time.
    """
    model = test_numpy.context()[0](dictionary)
    bos, eos = dictionary.bos(), dictionary.eos()

    def alone(number: int, text: str) -> float:
        read = encode(SOURCE[max(0, number - 2) : number + 1])
        source = torch.tensor([[token for sentence in read for token in (bos, *sentence, eos)]])
        (words,) = encode([text])
        lprobs = model(source, None, torch.tensor([[bos, *words]]))[0].log_softmax(dim=2)[0]
        return sum(float(lprobs[place, token]) for place, token in enumerate([*words, eos]))

    examples = [
        Item(0, SOURCE, CANDIDATES, "", whole=whole),
        Item(1, SOURCE[:1], (("w3",), ("w4 w4",)), "", correct=1, whole=whole),
    ]
    scorer = SentenceScorer(model, dictionary, dictionary)
    found = score_items(scorer, examples, encode, encode, capacity=Capacity(3, 1))
    for example, scores in zip(examples, found, strict=True):
        for text, score in zip(example.candidates, scores.detail["scores"], strict=True):
            each = [alone(number, sentence) for number, sentence in enumerate(text)]
            assert score == pytest.approx(sum(each) if whole else each[-1], abs=1e-9)
