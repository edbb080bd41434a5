"""The rule itself, on hand-made prefixes."""

import numpy as np
import pytest
import torch

from gtransformer.search.rules import FreeText, SentenceRule, sentence_length_limits

S, E, L, M, A, B = 0, 2, 17, 18, 4, 5  # <s>, </s>, [de], <mask>, w0, w1
RULE = SentenceRule(S, E, L, torch.tensor([S, 1, L - 1, L, M]), min_len=2)
FREE = FreeText(S, E, L, torch.tensor([1]), min_len=2)
WORDS = {3, *range(4, 16)}
ANY = {*range(19)} - {1}


def allowed(rule, prefix, limits):
    """Which tokens may follow, and their scores."""
    state = rule.start(1, 1)
    for token in prefix[1:]:
        state = rule.advance(state, np.array([[token]]))
    if rule.between(state).item():
        return {rule.without_choice(state, np.array([[len(limits)]])).item(): 0.0}
    scores = torch.full((1, 19), -1.5)
    short, full = (torch.from_numpy(one.ravel().nonzero()[0]) for one in rule.length_bounds(state, np.array([limits])))
    rule.restrict(scores, short, full)
    return {i: scores[0, i].item() for i in range(19) if scores[0, i] > -torch.inf}


@pytest.mark.parametrize(
    ("rule", "prefix", "limits", "tokens", "score"),
    [
        (RULE, [S], [3, 3], WORDS, -1.5),  # too short to end
        (RULE, [S, A], [3, 3], WORDS, -1.5),
        (RULE, [S, A, B], [3, 3], {*WORDS, E}, -1.5),
        (RULE, [S, A, B, A], [3, 3], {E}, -1.5),  # full: </s> at its own score
        (RULE, [S, A, B, E], [3, 3], {S}, 0.0),
        (RULE, [S, A, B, E, S, A, B, E], [3, 3], {L}, 0.0),  # the last sentence is complete
        (RULE, [S, A], [1, 3], {E}, -1.5),  # a limit below min_len wins
        (RULE, [S], [0], {E}, -1.5),  # an empty source sentence with limit 0
        (RULE, [S, A, B, E, S, A], [9, 1], {E}, -1.5),  # each sentence has its own limit
        (FREE, [S, A], [5], ANY - {L}, -1.5),  # a document too short to end
        (FREE, [S, A, E, S, E], [5], ANY, -1.5),
        (FREE, [S, A, E, S, E, B], [5], {L}, -1.5),  # full
    ],
)
def test_what_may_follow(rule, prefix, limits, tokens, score):
    found = allowed(rule, prefix, limits)
    assert set(found) == tokens
    assert set(found.values()) == {score}


def test_limits_count_words_only():
    source = torch.tensor([[1, 1, 1, S, A, E, S, A, B, A, E], [S, E, S, A, A, A, A, A, E, S, E]])
    words = source.ge(3)
    limits, sentences = sentence_length_limits(source, S, words, 1.2, 10)
    assert sentences.tolist() == [2, 3]
    assert limits.tolist() == [[11, 13, 0], [10, 16, 10]]
