"""Contrastive examples with models that translate a sentence with previous source sentences beside it."""

from __future__ import annotations

import pytest
import torch

from gtransformer.evaluation.capacity import Capacity
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.evaluation.suites.example import Example, score_examples
from tests.core.models.test_document_transformer import beside_model

SOURCE = ("w1 w2", "w3", "w4 w5 w6", "w7")
CANDIDATES = (("w2", "w2 w2", "w5", "w1 w3"), ("w2", "w2 w4", "w5", "w6"))


@torch.no_grad()
@pytest.mark.parametrize("whole", [True, False])
def test_scores_are_forced_decodings_of_single_sentences(dictionary, whole):
    """Each sentence with up to two previous ones, as the model was trained; spelled out, one pair at a time."""
    model = beside_model(dictionary)
    encode = lambda texts: [[dictionary.index(word) for word in text.split()] for text in texts]  # noqa: E731
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
