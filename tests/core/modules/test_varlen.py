"""Attention over segments of unequal length: the layout on the CPU, the kernel on a GPU."""

import random

import pytest
import torch

from gtransformer.modules import varlen
from gtransformer.modules.segments import segment_attention
from tests.core.modules.test_engines import on_gpu
from tests.support import make_local_or_global, ragged, random_lengths, relative_error


def on_cpu(q, k, v, query_bounds, key_bounds, *longest, window_size):
    """Compute with the kernel's arguments what the CPU's operator does."""
    for bounds, most in zip((query_bounds, key_bounds), longest, strict=True):
        assert most == bounds.diff().max()
    return segment_attention(q, k, v, query_bounds, key_bounds, window_size == (-1, 0))


def layout(draw, *sentences):
    """Documents of so many sentences of random length."""
    shapes = [random_lengths(draw, number, 10, 2) for number in sentences]
    return ragged([[n for n, length in enumerate(one) for _ in range(length)] for one in shapes])


def inputs(queries, keys, dtype, device="cpu"):
    shapes = (queries.total, 3, 16), (keys.total, 3, 16), (keys.total, 3, 16)
    return [torch.randn(shape, device=device).to(dtype).requires_grad_() for shape in shapes]


KINDS = [
    (True, True, True),
    (True, False, True),
    (True, False, False),
    (False, True, True),
    (False, False, False),
]


@pytest.mark.parametrize("local, causal, own", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_layout(monkeypatch, local, causal, own, seed):
    draw = random.Random(seed)
    queries = layout(draw, 3, 1, 5)
    keys = queries if own else layout(draw, 3, 1, 5)
    sides = inputs(queries, keys, torch.float64)
    expected = make_local_or_global("dense", queries, keys, local, causal).attend(*sides, 0.0)
    calls = []
    monkeypatch.setattr(
        varlen, "kernel", lambda: lambda *a, **b: calls.append(1) or on_cpu(*a, **b)
    )
    pattern = make_local_or_global("packed", queries, keys, local, causal)
    found = varlen.attend(*sides, *pattern.unpadded)
    assert calls == [1]
    assert relative_error(found, expected) < 1e-12


def test_what_is_not_in_order():
    """A source sentence without a target sentence, and the other way round."""
    draw = random.Random(1)
    for own, other in (((2, 3), (2, 4)), ((2, 4), (2, 3))):
        sides = layout(draw, *own), layout(draw, *other)
        assert make_local_or_global("packed", *sides, True, False).unpadded is None
        assert make_local_or_global("packed", *sides, False, False).unpadded is not None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("local, causal, own", KINDS)
def test_kernel_forward_and_backward(local, causal, own, dtype):
    draw = random.Random(1)
    queries = on_gpu(layout(draw, 4, 1, 6, 2))
    keys = queries if own else on_gpu(layout(draw, 4, 1, 6, 2))
    sides = inputs(queries, keys, dtype, "cuda")
    exact = [side.detach().double().requires_grad_() for side in sides]
    expected = make_local_or_global("dense", queries, keys, local, causal).attend(*exact, 0.0)
    found = make_local_or_global("packed", queries, keys, local, causal).attend(*sides, 0.0)
    upstream = torch.randn_like(found)
    found.backward(upstream)
    expected.backward(upstream.double())
    for a, b in [(found, expected), *((x.grad, y.grad) for x, y in zip(sides, exact, strict=True))]:
        assert relative_error(a.double(), b) < 0.02
