"""Attention over segments of unequal length: the layout on the CPU with a kernel written out, the
real one on a GPU.
"""

import random

import pytest
import torch
from torch.nn import functional

from gtransformer.modules import varlen
from tests.core.modules.test_engines import on_gpu
from tests.support import make_local_or_global, ragged, random_lengths, relative_error


def written_out(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size):
    """What the kernel is documented to compute, segment by segment."""
    outputs = []
    bounds = [side.tolist() for side in (cu_seq_q, cu_seq_k)]
    assert max_q == max(b - a for a, b in zip(bounds[0], bounds[0][1:], strict=False))
    assert max_k == max(b - a for a, b in zip(bounds[1], bounds[1][1:], strict=False))
    for a, b, c, d in zip(bounds[0], bounds[0][1:], bounds[1], bounds[1][1:], strict=False):
        sides = (side.transpose(0, 1) for side in (q[a:b], k[c:d], v[c:d]))
        result = functional.scaled_dot_product_attention(*sides, is_causal=window_size == (-1, 0))
        outputs.append(result.transpose(0, 1))
    return torch.cat(outputs)


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
        varlen, "kernel", lambda: lambda *a, **b: calls.append(1) or written_out(*a, **b)
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
