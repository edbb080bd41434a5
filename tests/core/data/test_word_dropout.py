"""Word dropout: how often, on what; draws depend on seed, epoch and instance alone."""

import numpy
import pytest
import torch

from gtransformer.data.word_dropout import WordDropout

MASK, PROTECTED = 18, torch.tensor([0, 1, 2, 3, 16, 17, 18])


def tokens(words=4000):
    """All symbols of the dictionary in turn."""
    return torch.arange(words) % 19


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.9, 1.0])
def test_rate_and_protected_symbols(probability):
    source = tokens()
    noisy = WordDropout(probability, MASK, PROTECTED, epochs=9, seed=1)(source, 1, 0, 0)
    protected = torch.isin(source, PROTECTED)
    assert torch.equal(noisy[protected], source[protected])
    words, changed = source[~protected], noisy[~protected]
    dropped = changed.eq(MASK)
    assert torch.equal(changed[~dropped], words[~dropped])
    deviation = (probability * (1 - probability) / len(words)) ** 0.5
    assert abs(dropped.double().mean() - probability) <= 4 * deviation
    assert torch.equal(source, tokens())


def test_draws_depend_on_seed_epoch_instance_and_side_alone():
    def noisy(seed=1, epoch=1, instance=5, side=0):
        return WordDropout(0.3, MASK, PROTECTED, 9, seed)(tokens(300), epoch, instance, side)

    reference = noisy()
    numpy.random.seed(77)
    torch.manual_seed(77)
    state = numpy.random.get_state()[1].copy()
    assert torch.equal(noisy(), reference)
    assert (numpy.random.get_state()[1] == state).all()  # the global generator is left as it was
    for changed in ({"seed": 2}, {"epoch": 2}, {"instance": 6}, {"side": 1}):
        assert not torch.equal(noisy(**changed), reference)
