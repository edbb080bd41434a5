"""Word dropout: how often, on what; draws depend on seed, epoch and instance alone."""

import numpy
import pytest
import torch

from gtransformer.data.word_dropout import WordDropout

MASK, PROTECTED = 18, torch.tensor([0, 1, 2, 3, 16, 17, 18])


def tokens(words=4000):
    """All symbols of the dictionary in turn."""
    return torch.arange(words) % 19


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.9])
def test_rate_and_protected_symbols(probability):
    source = tokens()
    noisy = WordDropout(probability, MASK, PROTECTED, epochs=9, seed=1)(source, 1, 0, 0)
    protected = torch.isin(source, PROTECTED)
    assert torch.equal(noisy[protected], source[protected])
    words, changed = source[~protected], noisy[~protected]
    dropped = changed.eq(MASK)
    assert torch.equal(changed[~dropped], words[~dropped])
    deviation = (probability * (1 - probability) / len(words)) ** 0.5
    assert abs(dropped.double().mean() - probability) < 4 * deviation


def test_draws_depend_on_seed_epoch_instance_and_side_alone():
    source = tokens(300)
    reference = WordDropout(0.3, MASK, PROTECTED, epochs=9, seed=1)(source, 1, 5, 0)
    numpy.random.seed(77)
    torch.manual_seed(77)
    state = numpy.random.get_state()[1].copy()
    assert torch.equal(
        WordDropout(0.3, MASK, PROTECTED, epochs=9, seed=1)(source, 1, 5, 0), reference
    )
    assert (numpy.random.get_state()[1] == state).all()  # the global generator is left as it was
    others = [
        WordDropout(0.3, MASK, PROTECTED, epochs=9, seed=2)(source, 1, 5, 0),
        WordDropout(0.3, MASK, PROTECTED, epochs=9, seed=1)(source, 2, 5, 0),
        WordDropout(0.3, MASK, PROTECTED, epochs=9, seed=1)(source, 1, 6, 0),
        WordDropout(0.3, MASK, PROTECTED, epochs=9, seed=1)(source, 1, 5, 1),
    ]
    assert not any(torch.equal(other, reference) for other in others)


def test_all_or_nothing_and_the_input_is_left_alone():
    source = tokens(100)
    assert torch.equal(WordDropout(0.0, MASK, PROTECTED, epochs=9, seed=1)(source, 1, 0, 0), source)
    noisy = WordDropout(1.0, MASK, PROTECTED, epochs=9, seed=1)(source, 1, 0, 0)
    assert noisy[~torch.isin(source, PROTECTED)].eq(MASK).all() and torch.equal(source, tokens(100))
