"""Contrastive items under a model whose windows lie by the target's length: right and wrong are seen alike."""

from __future__ import annotations

import pytest
import torch

from gtransformer.data.places import Place
from gtransformer.errors import UserError
from gtransformer.evaluation.contrastive import Item, score_items
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.models.common.windows import ALIGNMENTS
from gtransformer.tasks.generation import check_alignment
from tests.core.models.test_window import window_model
from tests.support import tiny_task

SOURCE = ["w1 w2 w3 w4 w5", "w6", "w7 w8 w9"]
TARGET = ["w2 w3", "w4 w5 w6", "w7 w8 w9 w10 w11"]


@torch.no_grad()
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_text_scores_the_same_as_right_and_as_wrong(dictionary, alignment):
    model = window_model(dictionary, 2, train_alignment=alignment)
    encode = lambda texts: [[dictionary.index(word) for word in text.split()] for text in texts]  # noqa: E731
    items = [Item(0, "pronoun", "a", 0, i, i, text, (text, "w1")) for i, text in enumerate(TARGET)]
    scorer = SentenceScorer(model, dictionary, dictionary)
    read = lambda number: (encode(SOURCE), encode(TARGET))  # noqa: E731
    for score in score_items(scorer, items, [Place(0, 0, 3)], read, encode):
        assert score.wrong[0] == pytest.approx(score.correct, abs=1e-9)


def test_unequal_sides_are_refused(dictionary):
    options = {"instances": "current", "context_sentences": 2, "target_context_sentences": 0}
    cfg = tiny_task(dictionary, **options).cfg
    with pytest.raises(UserError, match="windows align target and source from their beginnings on; give equal numbers"):
        check_alignment(cfg, window_model(dictionary, 2))
    equal = tiny_task(dictionary, **{**options, "target_context_sentences": 2}).cfg
    check_alignment(equal, window_model(dictionary, 2))
