"""The state of a prefix: counted along it is what is read off it; arrays and tensors are treated alike."""

import random

import numpy as np
import pytest
import torch

from gtransformer.data.group_tags import group_tags, tag_of_newest
from gtransformer.search.rules import SentenceRule, SentenceState

S, P, E, L, A, B = 0, 1, 2, 17, 4, 5  # <s>, <pad>, </s>, [de], w0, w1
RULE = SentenceRule(S, E, L, torch.tensor([S, P, L - 1, L, L + 1]), min_len=2)


def random_prefixes(draw: random.Random, documents: int, beam: int, length: int) -> torch.Tensor:
    """Any tokens behind <s>: prefix tokens may be against the rule."""
    rows = [[S, *draw.choices([S, E, L, A, B], k=length - 1)] for _ in range(documents * beam)]
    return torch.tensor(rows).view(documents, beam, length)


def allowed_prefix(draw: random.Random, limits: list[int]) -> list[int]:
    """A document that keeps to the rule, up to its language symbol."""
    tokens = []
    for limit in limits:
        tokens += [S, *draw.choices([A, B], k=draw.randint(min(RULE.min_len, limit), limit)), E]
    return [*tokens, L]


def assert_equal(found: SentenceState, expected: SentenceState) -> None:
    for name in ("newest", "complete", "words"):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.shape == b.shape and a.dtype == torch.int64, name
        assert torch.equal(a, b), name


def as_tensors(state: SentenceState) -> SentenceState:
    return SentenceState(*(torch.from_numpy(side) for side in (state.newest, state.complete, state.words)))


@pytest.mark.parametrize("seed", range(5))
def test_counted_along_is_read_off(seed):
    draw = random.Random(seed)
    prefixes = random_prefixes(draw, 3, 4, 30)
    arrays, tensors = RULE.start(3, 4), RULE.read(prefixes[..., :1])
    for length in range(1, 31):
        if length > 1:
            newest = prefixes[..., length - 1]
            arrays, tensors = RULE.advance(arrays, newest.numpy()), RULE.advance(tensors, newest)
        read = RULE.read(prefixes[..., :length])
        assert_equal(tensors, read)
        assert_equal(as_tensors(arrays), read)


@pytest.mark.parametrize("seed", range(5))
def test_what_follows_from_a_state_is_the_same_on_both_sides(seed):
    draw = random.Random(seed)
    prefixes = random_prefixes(draw, 3, 4, 12)
    limits, sentences = torch.tensor([[3, 1, 4], [0, 0, 0], [2, 5, 0]]), torch.tensor([[3], [0], [2]])
    read = RULE.read(prefixes)
    arrays = SentenceState(*(side.numpy() for side in (read.newest, read.complete, read.words)))
    pairs = [
        (RULE.between(arrays), RULE.between(read)),
        (RULE.tags(arrays), RULE.tags(read)),
        (RULE.without_choice(arrays, sentences.numpy()), RULE.without_choice(read, sentences)),
        *zip(RULE.room(arrays, limits.numpy()), RULE.room(read, limits), strict=True),
    ]
    for ours, theirs in pairs:
        assert isinstance(ours, np.ndarray) and torch.equal(torch.from_numpy(ours), theirs)


@pytest.mark.parametrize("seed", range(5))
def test_a_document_is_allowed_step_by_step(seed):
    """What the rule says of a document that keeps to it: its tags, when a sentence may end, and what comes between."""
    draw = random.Random(seed)
    limits = [draw.randint(0, 5) for _ in range(4)]
    document = torch.tensor(allowed_prefix(draw, limits))
    tags = group_tags(document.unsqueeze(0), S)[0]
    state, sentences = RULE.start(1, 1), np.array([[len(limits)]])
    for position in range(len(document) - 1):
        prefix, token = document[: position + 1], int(document[position + 1])
        assert int(RULE.tags(state).item()) == int(tag_of_newest(prefix, S)) == int(tags[position])
        short, full = (bool(side.item()) for side in RULE.room(state, np.array([limits])))
        if RULE.between(state).item():
            assert RULE.without_choice(state, sentences).item() == token
        else:
            assert not (short and token == E) and not (full and token != E)
        state = RULE.advance(state, np.array([[token]]))
    assert state.complete.item() == len(limits)
