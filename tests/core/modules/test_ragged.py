"""The ragged layout: packing and padding are inverse, on either side of padding."""


import pytest
import torch

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
