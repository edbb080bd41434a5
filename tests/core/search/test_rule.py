"""The rule itself, on hand-made prefixes."""

import pytest
import torch
from fairseq.search import BeamSearch

from gtransformer.search.generator import DocumentSearch
from gtransformer.search.rules import SentenceRule, sentence_length_limits

S, E, L, M, A, B = 0, 2, 17, 18, 4, 5  # <s>, </s>, [de], <mask>, w0, w1


@pytest.fixture
def search(dictionary):
    """search(limits): the rule over documents whose sentences may have so many words."""
    assert (dictionary.index("[de]"), dictionary.index("<mask>"), dictionary.index("w0")) == (L, M, A)
    forbidden = torch.tensor([S, dictionary.pad(), L - 1, L, M])
    rule = SentenceRule(S, E, L, forbidden, min_len=2)

    def make(*limits):
        padded = [row + [0] * (max(map(len, limits)) - len(row)) for row in limits]
        sentences = torch.tensor([len(row) for row in limits])
        return DocumentSearch(dictionary, BeamSearch(dictionary), rule, torch.tensor(padded), sentences)

    return make


def allowed(search, prefix, limits):
    """Which tokens may follow, and their scores."""
    scores = torch.full((1, 1, 19), -1.5)
    search(limits).constrain(scores, torch.tensor([[prefix]]))
    return {i: scores[0, 0, i].item() for i in range(19) if scores[0, 0, i] > -torch.inf}


WORDS = {3, *range(4, 16)}


@pytest.mark.parametrize(
    ("prefix", "limits", "tokens", "score"),
    [
        ([S], [3, 3], WORDS, -1.5),  # too short to end
        ([S, A], [3, 3], WORDS, -1.5),
        ([S, A, B], [3, 3], {*WORDS, E}, -1.5),
        ([S, A, B, A], [3, 3], {E}, -1.5),  # full: </s> at its own score
        ([S, A, B, E], [3, 3], {S}, 0.0),
        ([S, A, B, E, S, A, B, E], [3, 3], {L}, 0.0),  # the last sentence is complete
        ([S, A], [1, 3], {E}, -1.5),  # a limit below min_len wins
        ([S], [0], {E}, -1.5),  # an empty source sentence with limit 0
        ([S, A, B, E, S, A], [9, 1], {E}, -1.5),  # each sentence has its own limit
    ],
)
def test_what_may_follow(search, prefix, limits, tokens, score):
    found = allowed(search, prefix, limits)
    assert set(found) == tokens
    assert set(found.values()) == {score}


def test_a_choice_that_prefix_tokens_have_made_stands(search):
    scores = torch.full((1, 1, 19), -torch.inf)
    scores[0, 0, A] = -2.0
    search([3]).constrain(scores, torch.tensor([[[S, A, E]]]))
    assert scores[0, 0, A] == -2.0 and scores.isneginf().sum() == 18


def test_limits_count_words_only():
    source = torch.tensor([[1, 1, 1, S, A, E, S, A, B, A, E], [S, E, S, A, A, A, A, A, E, S, E]])
    words = source.ge(3)
    limits, sentences = sentence_length_limits(source, S, words, 1.2, 10)
    assert sentences.tolist() == [2, 3]
    assert limits.tolist() == [[11, 13, 0], [10, 16, 10]]
