"""Positions: the formula, growth beyond the table, and the limit of learned ones."""

import math

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.modules.positions import LearnedPositions, SinusoidalPositions


def formula(position: int, channels: int) -> torch.Tensor:
    """First half sines, second half cosines, wavelengths from 2 pi to 10,000 times that; counted
    from padding + 1.
    """
    half = channels // 2
    rates = [math.exp(-math.log(10000) * i / (half - 1)) for i in range(half)]
    return torch.tensor(
        [math.sin(position * r) for r in rates] + [math.cos(position * r) for r in rates]
    )


@pytest.mark.parametrize("offset", [0, 1, 500, 1022, 5000])
def test_sinusoidal_at_any_length(offset):
    positions = SinusoidalPositions(12, padding=1)
    found = positions(torch.tensor([[offset]]), offset + 1)
    assert found.shape == (1, 1, 12)
    assert torch.allclose(found[0, 0], formula(offset + 2, 12), atol=1e-3 if offset > 100 else 1e-6)


def test_table_grows_without_changing_what_it_held():
    positions = SinusoidalPositions(8, padding=1)
    before = positions(torch.arange(10), 10).clone()
    positions(torch.tensor([3000]), 3001)
    assert torch.equal(positions(torch.arange(10), 10), before)
    assert "weights" not in positions.state_dict()


def test_learned_positions_have_an_end():
    positions = LearnedPositions(6, 4, padding=1)
    assert positions(torch.arange(6), 6).shape == (6, 4)
    with pytest.raises(UserError, match="7 tokens does not fit the 6 learned positions"):
        positions(torch.arange(7), 7)
