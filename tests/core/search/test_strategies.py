"""Ways through documents as functions of lengths, and values that cannot be."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.search.strategies import FULL, SEQUENTIAL, SLIDING, SentenceWindow, Strategy


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy(), [(0, 0, 0, 5)]),
        (
            Strategy(SEQUENTIAL),
            [(0, 0, 0, 1), (0, 0, 1, 2), (0, 0, 2, 3), (0, 0, 3, 4), (0, 0, 4, 5)],
        ),
        (
            Strategy(SEQUENTIAL, context=2),
            [(0, 0, 0, 1), (0, 0, 1, 2), (0, 0, 2, 3), (1, 1, 3, 4), (2, 2, 4, 5)],
        ),
        (
            Strategy(SEQUENTIAL, context=3, target_context=1),
            [(0, 0, 0, 1), (0, 0, 1, 2), (0, 1, 2, 3), (0, 2, 3, 4), (1, 3, 4, 5)],
        ),
        (
            Strategy(SEQUENTIAL, tokens=9),
            [(0, 0, 0, 1), (0, 0, 1, 2), (1, 1, 2, 3), (2, 2, 3, 4), (2, 2, 4, 5)],
        ),
        (Strategy(SLIDING, tokens=9), [(0, 0, 0, 2), (1, 1, 2, 3), (2, 2, 3, 5)]),
        (Strategy(SLIDING, tokens=6), [(0, 0, 0, 1), (1, 1, 1, 2), (2, 2, 2, 3), (3, 3, 3, 5)]),
        (Strategy(SLIDING, tokens=20), [(0, 0, 0, 5)]),
    ],
)
def test_by_hand(strategy, expected):
    assert strategy.windows([5, 3, 6, 2, 1]) == [SentenceWindow(*one) for one in expected]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": FULL, "tokens": 5}, "--window-tokens 5 has no effect with --strategy full"),
        ({"kind": SLIDING}, "--strategy sliding needs --window-tokens W"),
    ],
)
def test_values_that_cannot_be(options, message):
    with pytest.raises(UserError, match=message):
        Strategy(**options)
