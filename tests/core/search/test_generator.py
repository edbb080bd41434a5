"""Generators can be used again and at the same time: no batch leaves a trace in them."""

import random

import pytest
import torch

from gtransformer.errors import UserError
from tests.core.search.conftest import Translator
from tests.core.search.test_beam import assert_same
from tests.support import tiny_model

pytestmark = pytest.mark.slow

MODES = ("partial", "full")


def translator(dictionary, mode: str) -> Translator:
    model = tiny_model(dictionary, 1, doc_mode=mode).double()
    return Translator(dictionary, [model], {"doc_mode": mode}, beam=4, max_len_a=1.2, max_len_b=2)


@torch.no_grad()
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_leaves_no_trace(dictionary, documents, mode):
    draw = random.Random(21)
    batches = [documents(draw, shapes) for shapes in ([[3, 1, 4], [2]], [[6, 5, 4, 3, 2]], [[1]])]
    translate = translator(dictionary, mode)
    found = [translate(batch) for batch in batches]
    for batch, expected in reversed(list(zip(batches, found, strict=True))):  # in another order
        assert_same(translate(batch), expected)
    for batch, expected in zip(batches, found, strict=True):  # each by a generator of its own
        assert_same(translator(dictionary, mode)(batch), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"sampling": True, "sampling_topp": 0.8},
        {"diverse_beam_groups": 2},
        {"diversity_rate": 0.5},
        {"no_repeat_ngram_size": 2},
        {"prefix_size": 1},
        {"print_alignment": "hard"},
        {"sampling_topk": 3},
        {"sampling": True, "beam": 2},
    ],
)
def test_options_that_would_be_ignored(dictionary, options):
    with pytest.raises(UserError, match=list(options)[-1].replace("_", "-")):
        Translator(dictionary, [tiny_model(dictionary)], **options)
