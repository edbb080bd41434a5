"""Word dropout: how often, on what; draws depend on seed, epoch and instance alone; of current sentences, too."""

import numpy
import pytest
import torch

from gtransformer.data.word_dropout import CurrentWordDropout, WordDropout

MASK, PROTECTED = 18, torch.tensor([0, 1, 2, 3, 16, 17, 18])


def tokens(words=4000):
    """All symbols of the dictionary in turn."""
    return torch.arange(words) % 19


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.9])
def test_rate_and_protected_symbols(probability):
    source = tokens()
    noisy = WordDropout(probability, MASK, PROTECTED, seed=1)(source, 1, 0, 0)
    protected = torch.isin(source, PROTECTED)
    assert torch.equal(noisy[protected], source[protected])
    words, changed = source[~protected], noisy[~protected]
    dropped = changed.eq(MASK)
    assert torch.equal(changed[~dropped], words[~dropped])
    deviation = (probability * (1 - probability) / len(words)) ** 0.5
    assert abs(dropped.double().mean() - probability) < 4 * deviation


def test_draws_depend_on_seed_epoch_instance_and_side_alone():
    source = tokens(300)
    reference = WordDropout(0.3, MASK, PROTECTED, seed=1)(source, 1, 5, 0)
    numpy.random.seed(77)
    torch.manual_seed(77)
    state = numpy.random.get_state()[1].copy()
    assert torch.equal(WordDropout(0.3, MASK, PROTECTED, seed=1)(source, 1, 5, 0), reference)
    assert (numpy.random.get_state()[1] == state).all()  # the global generator is left as it was
    others = [
        WordDropout(0.3, MASK, PROTECTED, seed=2)(source, 1, 5, 0),
        WordDropout(0.3, MASK, PROTECTED, seed=1)(source, 2, 5, 0),
        WordDropout(0.3, MASK, PROTECTED, seed=1)(source, 1, 6, 0),
        WordDropout(0.3, MASK, PROTECTED, seed=1)(source, 1, 5, 1),
    ]
    assert not any(torch.equal(other, reference) for other in others)


def test_all_or_nothing_and_the_input_is_left_alone():
    source = tokens(100)
    assert torch.equal(WordDropout(0.0, MASK, PROTECTED, 1)(source, 1, 0, 0), source)
    noisy = WordDropout(1.0, MASK, PROTECTED, 1)(source, 1, 0, 0)
    assert noisy[~torch.isin(source, PROTECTED)].eq(MASK).all() and torch.equal(source, tokens(100))


def document(sentences):
    """``<s> w w w </s>`` so many times; (tokens, number of each token's sentence from 0)."""
    one = [0, 4, 5, 6, 2]
    return torch.tensor(one * sentences), torch.arange(sentences).repeat_interleave(len(one))


def masked(dropout, tokens, number, epoch, instance=0):
    """Which sentences have masks; and nothing else has changed."""
    found = dropout(tokens, epoch, instance, 2)
    changed = found != tokens
    assert found[changed].eq(MASK).all() and not torch.isin(tokens[changed], PROTECTED).any()
    return sorted(set(number[changed].tolist()))


@pytest.mark.parametrize("last", [True, False])
def test_a_sentence_without_context_is_whole(last):
    dropout = CurrentWordDropout(1.0, MASK, PROTECTED, seed=1, opening=0, last=last)
    tokens, number = document(1)
    assert all(masked(dropout, tokens, number, epoch) == [] for epoch in (1, 2))


@pytest.mark.parametrize("sentences", [2, 5])
def test_the_last_sentence_alone_is_current(sentences):
    dropout = CurrentWordDropout(1.0, MASK, PROTECTED, seed=1, opening=0, last=True)
    tokens, number = document(sentences)
    assert all(masked(dropout, tokens, number, epoch) == [sentences - 1] for epoch in (1, 2))
    assert dropout(tokens, 1, 0, 2).eq(MASK).sum() == 3


def test_of_whole_documents_every_other_sentence_is_current():
    """Neighbours of a sentence with masks are whole; in two epochs each has its turn once."""
    dropout = CurrentWordDropout(1.0, MASK, PROTECTED, seed=1, opening=0, last=False)
    tokens, number = document(5)
    turns = [masked(dropout, tokens, number, epoch, 3) for epoch in (1, 2, 3)]
    assert turns[0] == turns[2] != turns[1] and sorted(turns[0] + turns[1]) == list(range(5))
    assert all(later - one == 2 for turn in turns for one, later in zip(turn, turn[1:], strict=False))
    assert masked(dropout, tokens, number, 1, 4) == turns[1]  # other instances begin with the other turn
    rare = CurrentWordDropout(0.3, MASK, PROTECTED, seed=1, opening=0, last=False)
    tokens, number = document(2000)
    kept = rare(tokens, 1, 0, 2)[
        (number % 2 == min(masked(rare, tokens, number, 1)) % 2) & ~torch.isin(tokens, PROTECTED)
    ]
    assert abs(kept.eq(MASK).double().mean() - 0.3) < 4 * (0.3 * 0.7 / len(kept)) ** 0.5
