"""Windows and relative positions: the engines against the dense one, and what they cost."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gtransformer.modules import alignment
from gtransformer.modules.packed import PackedPattern
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_document, by_sentence, by_window
from tests.core.modules.comparison import compare, compare_in, run, states
from tests.support import ENGINES, ragged, relative_error

FAST = ["packed"]
HALVES = [torch.bfloat16, torch.float16]


def documents(draw: random.Random, number: int, longest: int) -> Ragged:
    """So many documents of 1 to ``longest`` tokens, in sentences, padded on either side."""
    rows = []
    for _ in range(number):
        length = draw.choice([1, draw.randint(1, longest), longest])
        sentence = draw.randint(1, 30)
        rows.append([1 + i // sentence for i in range(length)])
    return ragged(rows, left=draw.random() < 0.5)


def centres_of(kind: str, queries: Ragged, keys: Ragged, seed: int) -> np.ndarray:
    if kind == "anywhere":  # from query to query
        return np.random.default_rng(seed).integers(0, keys.doc_lengths[queries.doc])
    return getattr(alignment, kind)(queries, keys)


def inputs(reach: Reach, heads: int, dim: int, seed: int, clip: int | None) -> list[Tensor]:
    sides = (reach.queries, reach.keys, reach.keys)
    drawn = [states(side, heads, dim, 5 * seed + number) for number, side in enumerate(sides)]
    if clip is not None:
        generator = torch.Generator().manual_seed(seed)
        drawn.append(torch.randn(2 * clip + 1, dim, dtype=torch.float64, generator=generator))
    return drawn


@pytest.mark.parametrize("clip", [None, 0, 20])
@pytest.mark.parametrize("width", [0, 1, 20, 300])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention(causal, width, clip):
    seed = 7 * width + (clip or 0) + causal
    draw = random.Random(seed)
    layout = documents(draw, draw.randint(1, 5), draw.choice([4, 60, 150]))
    reach = by_window(layout, layout, alignment.one_to_one(layout, layout), width, causal)
    heads, dim = draw.choice([(2, 8), (3, 7), (1, 5), (4, 1)])
    compare(reach, inputs(reach, heads, dim, seed, clip), FAST, HALVES, cancelled=True)


@pytest.mark.parametrize("clip", [None, 5])
@pytest.mark.parametrize("width", [0, 20, 300])
@pytest.mark.parametrize("kind", ["one_to_one", "linear", "sentence_aligned", "anywhere"])
@pytest.mark.parametrize("causal", [True, False])
def test_cross_attention(causal, kind, width, clip):
    """Causal, too, where no interval or an empty one may be left: the future of a query is cut off any window."""
    seed = 7 * width + 3 * len(kind) + (clip or 0) + causal
    draw = random.Random(seed)
    number = draw.randint(1, 5)
    queries, keys = (documents(draw, number, draw.choice([4, 60, 150])) for _ in range(2))
    reach = by_window(queries, keys, centres_of(kind, queries, keys, seed), width, causal)
    heads, dim = draw.choice([(2, 8), (3, 7), (1, 5), (4, 1)])
    compare(reach, inputs(reach, heads, dim, seed, clip), FAST, HALVES, cancelled=True)


@pytest.mark.parametrize("clip", [0, 3, 40])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("by", [by_document, by_sentence])
def test_relative_positions_in_segments(by, causal, clip):
    """Tags that come back, so that a sentence's tokens need not stand side by side."""
    draw = random.Random(clip)
    layout = ragged([[draw.randint(1, 4) for _ in range(n)] for n in (40, 1, 17)], left=True)
    reach = by(layout, layout, causal)
    compare(reach, inputs(reach, 2, 4, clip, clip), FAST, HALVES, cancelled=True)
    source = ragged([[draw.randint(2, 5) for _ in range(n)] for n in (9, 30, 17)])
    reach = by(layout, source, causal)
    compare(reach, inputs(reach, 2, 4, clip, clip), FAST, HALVES, cancelled=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_relative_positions_by_hand(engine):
    """q . (k_j + r_clip(j - i)) / sqrt(dim), pair by pair with loops."""
    layout, clip, width = ragged([[1] * 6, [1] * 4]), 2, 3
    q, k, v, table = inputs(by_document(layout, layout), 1, 3, 1, clip)
    reach = by_window(layout, layout, layout.position, width)
    found = ENGINES[engine](reach).attend(q, k, v, 0.0, table)
    for i in range(10):
        begin, end = (0, 6) if i < 6 else (6, 10)
        seen = [j for j in range(begin, end) if abs(j - i) <= width]
        scores = [q[i, 0] @ (k[j, 0] + table[max(-clip, min(clip, j - i)) + clip]) / 3**0.5 for j in seen]
        weights = torch.softmax(torch.stack(scores), dim=0)
        assert torch.allclose(found[i], sum(w * v[j, 0] for w, j in zip(weights, seen, strict=True)), atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clip", [None, 2])
def test_an_empty_interval_gives_zeros(engine, clip):
    """Some queries see nothing, in the middle and at the ends: results and gradients are zero, never NaN."""
    layout = ragged([[1] * 50, [1] * 7])
    reach = by_window(layout, layout, layout.position, 4)
    nothing = np.isin(np.arange(57), [0, 20, 21, 40, 50, 56])
    last = np.where(nothing, reach.first, reach.last)
    reach = Reach(layout, layout, reach.order, reach.first, last)
    output, gradients = run(engine, reach, inputs(reach, 2, 4, 1, clip))
    blind = torch.from_numpy(nothing)
    assert output[blind].eq(0).all() and output[~blind].ne(0).all()
    assert gradients[0][blind].eq(0).all() and gradients[0][~blind].ne(0).any()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clip", [None, 2])
def test_dropout_drops_whole_weights(engine, clip):
    """Each weight is either gone or twice as large, half of them each; the gradient of v is of the same weights."""
    layout = ragged([[1] * 60, [1] * 20])
    reach = by_window(layout, layout, layout.position, 6)
    q, k, _, *table = inputs(reach, 1, 80, 1, clip)
    v = torch.eye(80, dtype=torch.float64).unsqueeze(1).requires_grad_()  # outputs are then the weights
    pattern = ENGINES[engine](reach)
    whole = pattern.attend(q, k, v, 0.0, *table)
    torch.manual_seed(1)
    dropped = pattern.attend(q, k, v, 0.5, *table)
    kept = dropped > 0
    assert torch.allclose(dropped[kept], 2 * whole[kept]) and dropped[~kept].eq(0).all()
    assert 0.4 < kept.sum() / (whole > 0).sum() < 0.6
    upstream = torch.randn_like(dropped)
    (gradient,) = torch.autograd.grad(dropped, v, upstream)
    assert torch.allclose(gradient.squeeze(1), dropped.detach().T @ upstream)


class Largest(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, Tensor):
                self.elements = max(self.elements, one.numel())
        return result


def cost(reach: Reach, clip: int | None, dropout: float) -> tuple[int, int]:
    """Elements of the largest tensor made, and of all that is kept for the backward pass, with one head of 2."""
    q, k, v, *table = (x.float().requires_grad_() for x in inputs(reach, 1, 2, 1, clip))
    saved = {}
    with Largest() as largest:
        pattern = PackedPattern(reach)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x: saved.__setitem__((x.untyped_storage().data_ptr(), x.shape), x.untyped_storage().nbytes()) or x,
            lambda x: x,
        ):
            output = pattern.attend(q, k, v, dropout, *table)
        output.sum().backward()
    return largest.elements, sum(saved.values())


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("clip", [None, 20])
@pytest.mark.parametrize("causal", [True, False])
def test_memory_of_windows_is_linear(causal, clip, dropout):
    """One document of 4,096 tokens keeps what 8 of 512 do, and twice what one of 2,048 does."""
    whole, half, many = ([[1] * n] * documents for n, documents in ((4096, 1), (2048, 1), (512, 8)))
    found = []
    for rows in (whole, half, many):
        layout = ragged(rows)
        found.append(cost(by_window(layout, layout, layout.position, 20, causal), clip, dropout))
    assert found[0][0] <= 4096 * (64 + 41 + 41)  # what blocks against slabs have, and a block's shift of scores
    assert all(one <= 2.1 * other for one, other in zip(found[0], found[1], strict=True))
    assert 1 / 1.2 <= found[0][1] / found[2][1] <= 1.2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("clip", [None, 20])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("kind", ["one_to_one", "sentence_aligned", "anywhere"])
def test_on_cuda(monkeypatch, kind, dtype, clip):
    for name in ("bf16", "fp16"):  # else cuBLAS adds up parts of a product in half precision, dense or not
        monkeypatch.setattr(torch.backends.cuda.matmul, f"allow_{name}_reduced_precision_reduction", False)
    draw = random.Random(1)
    sides = (documents(draw, 4, 150) for _ in range(2))
    queries, keys = (Ragged(side.pad(torch.ones(side.total, dtype=bool)).cuda(), side.tags.cuda()) for side in sides)
    reach = by_window(queries, keys, centres_of(kind, queries, keys, 1), 20)
    drawn = [x.to("cuda", dtype) for x in inputs(reach, 2, 16, 1, clip)]
    if dtype != torch.float32:
        return compare_in(dtype, reach, drawn, FAST, cancelled=True)
    expected, gradients = run("dense", reach, [x.double() for x in drawn])
    for engine in FAST:
        found = run(engine, reach, drawn)
        for one, exact in zip([found[0], *found[1]], [expected, *gradients], strict=True):
            assert relative_error(one, exact) < 1e-5
