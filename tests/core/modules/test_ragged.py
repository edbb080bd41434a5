"""The ragged layout: packing and padding are inverse, on either side of padding."""

import random

import pytest
import torch

from gtransformer.modules.ragged import Ragged
from tests.support import ragged


@pytest.mark.parametrize("left", [True, False])
def test_pack_and_pad(left):
    layout = ragged([[1, 1, 2], [1], [0, 1, 2, 2, 0]], left)
    assert (layout.batch, layout.length, layout.total) == (3, 5, 9)
    assert layout.doc.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    assert layout.tag.tolist() == [1, 1, 2, 1, 0, 1, 2, 2, 0]
    assert layout.offset.tolist() == [0, 1, 2, 0, 0, 1, 2, 3, 4]
    assert layout.doc_lengths.tolist() == [3, 1, 5] and layout.doc_starts.tolist() == [0, 3, 4, 9]
    packed = torch.arange(1.0, 28.0).view(9, 3)
    padded = layout.pad(packed)
    assert padded.shape == (3, 5, 3)
    assert torch.equal(layout.pack(padded), packed)
    assert padded.sum() == packed.sum()  # zero at padding
    first = 4 if left else 0
    assert torch.equal(padded[1, first], packed[3])


def test_padding_in_the_middle():
    draw = random.Random(3)
    real = torch.tensor([[draw.random() < 0.6 for _ in range(20)] for _ in range(7)])
    tokens = torch.arange(140).view(7, 20)
    layout = Ragged(real, torch.ones_like(tokens))
    assert torch.equal(layout.pack(tokens), tokens[real])
    assert torch.equal(layout.pad(tokens[real]), tokens.masked_fill(~real, 0))
