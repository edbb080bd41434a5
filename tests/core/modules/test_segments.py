"""Attention within segments given by tensors, against masks."""

import pytest
import torch

from gtransformer.modules.segments import segment_attention


def bounds(*lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def masked(q, k, v, query_bounds, key_bounds, causal):
    """The same with one mask over all pairs; a query without keys has zeros."""
    segments = [
        torch.searchsorted(ends[1:], torch.arange(len(side)), right=True)
        for ends, side in ((query_bounds, q), (key_bounds, k))
    ]
    seen = segments[0][:, None] == segments[1]
    if causal:
        seen &= torch.ones_like(seen).tril()
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[2] ** -0.5
    weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1).nan_to_num()
    return torch.einsum("hqk,khd->qhd", weights, v)


CASES = {
    "as many keys": (bounds(3, 1, 5), bounds(3, 1, 5), False),
    "causal": (bounds(3, 1, 5), bounds(3, 1, 5), True),
    "the end repeated": (bounds(4, 5, 0, 0), bounds(2, 6, 0, 0), False),
    "a segment without keys, one without queries": (bounds(4, 0, 5), bounds(0, 3, 5), False),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_masks(case):
    query_bounds, key_bounds, causal = CASES[case]
    sides = [torch.randn(int(end[-1]), 2, 4).double() for end in (query_bounds, *[key_bounds] * 2)]
    sides = [side.requires_grad_() for side in sides]
    found = segment_attention(*sides, query_bounds, key_bounds, causal)
    expected = masked(*sides, query_bounds, key_bounds, causal)
    torch.testing.assert_close(found, expected)
    upper = torch.randn_like(found)
    pairs = (torch.autograd.grad(one, sides, upper) for one in (found, expected))
    for gradient, wanted in zip(*pairs, strict=True):
        torch.testing.assert_close(gradient, wanted)
