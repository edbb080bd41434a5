"""Limits of sentences where the model's positions are limited."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.search.positions import longest_source, within_positions
from gtransformer.search.rules import sentence_length_limits
from tests.core.search.conftest import Translator
from tests.support import random_document, tiny_model

LIMITS = torch.tensor([[10, 20, 30], [5, 5, 0], [1, 1, 1]])
SENTENCES = torch.tensor([3, 2, 3])


@pytest.mark.parametrize("positions", [66, 65, 39, 19, 9])
def test_documents_that_do_not_fit_are_shrunk_in_proportion(positions):
    shrunk = within_positions(LIMITS, SENTENCES, positions)
    assert int((shrunk.sum(1) + 2 * SENTENCES).max()) <= positions
    assert (shrunk > 0).equal(LIMITS > 0) and (shrunk <= LIMITS).all()
    assert shrunk[0].tolist() == sorted(shrunk[0].tolist())
    assert shrunk.equal(LIMITS) == (positions == 6 + 60)
    if positions >= 4 + 10:
        assert torch.equal(shrunk[1:], LIMITS[1:])  # other documents keep theirs
    if positions == 39:
        assert shrunk[0].tolist() == [1 + 9 * 30 // 57, 1 + 19 * 30 // 57, 1 + 29 * 30 // 57]


def test_too_many_sentences():
    with pytest.raises(UserError, match="3 sentences do not fit the 8 positions"):
        within_positions(LIMITS, SENTENCES, 8)


@pytest.mark.parametrize(("source", "target"), [(30, 24), (20, 40), (1_000_000, 25)])
def test_the_longest_source_fits_whatever_its_sentences_are(dictionary, source, target):
    """Of one word each, so that the translation has the most marks; and of one long sentence."""
    model = tiny_model(
        dictionary,
        encoder_learned_pos=source < 1000,
        decoder_learned_pos=True,
        max_source_positions=source,
        max_target_positions=target,
        share_all_embeddings=False,
    )
    longest = longest_source(model)
    assert longest == min(source, target)
    translate = Translator(dictionary, [model], beam=2, max_len_a=2.0, max_len_b=30)
    for lengths in ([1] * (longest // 3), [longest - 2]):
        ((best, *_),) = translate([random_document(random.Random(1), dictionary, lengths)])
        assert len(translate.sentences(best)) == len(lengths) and len(best["tokens"]) <= target


def test_limits_count_words_only():
    """0 is <s>, 1 padding, 2 </s>."""
    source = torch.tensor([[1, 1, 1, 0, 4, 2, 0, 4, 5, 4, 2], [0, 2, 0, 4, 4, 4, 4, 4, 2, 0, 2]])
    limits, sentences = sentence_length_limits(source, 0, source.ge(3), 1.2, 10)
    assert sentences.tolist() == [2, 3]
    assert limits.tolist() == [[11, 13, 0], [10, 16, 10]]
