"""The packed engine against the dense one, which is Eq. 5-7 written out; what it costs."""

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
from tests.core.modules.comparison import compare, run, states
from tests.support import ENGINES, ragged

pytestmark = pytest.mark.slow

HALVES = [torch.bfloat16, torch.float16]
HEADS = [(2, 8), (3, 7), (1, 5), (4, 1)]
CENTRES = "one_to_one", "linear", "sentence_aligned", "anywhere"
KINDS = "group", "global", ("anywhere", 0), ("anywhere", 300), *((name, 20) for name in CENTRES)


def documents(draw: random.Random) -> Ragged:
    """Three documents of 1 to 700 tokens in sentences of 1 to 80, the second of one sentence,
    padded on either side.
    """
    longest, most = draw.choice([5, 20, 80]), draw.randint(1, 12)
    rows = []
    for document in range(3):
        sentences = 1 if document == 1 else most
        lengths = [draw.choice([1, draw.randint(1, longest)]) for _ in range(sentences)]
        rows.append(np.arange(1, 1 + sentences).repeat(lengths).tolist())
    return ragged(rows, left=draw.random() < 0.5)


def on_gpu(layout: Ragged) -> Ragged:
    return Ragged.of_tags(layout.tags, torch.device("cuda"), whole=True)


def reach_of(kind, queries: Ragged, keys: Ragged, causal: bool, seed: int = 1) -> Reach:
    if kind in ("group", "global"):
        return (by_sentence if kind == "group" else by_document)(queries, keys, causal)
    if kind[0] == "anywhere":  # from query to query
        centres = np.random.default_rng(seed).integers(0, keys.doc_lengths[queries.doc])
    else:
        centres = getattr(alignment, kind[0])(queries, keys)
    return by_window(queries, keys, centres, kind[1], causal)


def inputs(reach: Reach, heads: int, dim: int, seed: int, clip: int | None) -> list[Tensor]:
    sides = (reach.queries, reach.keys, reach.keys)
    drawn = [states(side, heads, dim, 5 * seed + number) for number, side in enumerate(sides)]
    if clip is not None:
        generator = torch.Generator().manual_seed(seed)
        drawn.append(torch.randn(2 * clip + 1, dim, dtype=torch.float64, generator=generator))
    return drawn


@pytest.mark.parametrize("clip", [None, 0, 20])
@pytest.mark.parametrize("causal, own", [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_random_documents(kind, causal, own, clip):
    """Self-attention and cross-attention, where no interval or an empty one may be left."""
    draw = random.Random(f"{kind} {causal} {own} {clip}")
    for seed in range(2):
        queries = documents(draw)
        keys = queries if own else documents(draw)
        reach = reach_of(kind, queries, keys, causal, seed)
        plain = clip is None and kind in ("global", "group")
        halves = HALVES[: 1 + (not plain)]
        compare(reach, inputs(reach, *draw.choice(HEADS), seed, clip), halves, not plain)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", ["group", "global", ("one_to_one", 2)], ids=str)
def test_by_hand(engine, kind, causal):
    """q . (k_j + r_clip(j - i)) / sqrt(dim), pair by pair with loops."""
    tags, clip = [1, 1, 2, 4, 4, 4], 2
    layout = ragged([tags, tags[:4]])
    reach = reach_of(kind, layout, layout, causal)
    q, k, v, table = inputs(reach, 1, 3, 1, clip)
    found = ENGINES[engine](reach).attend(q, k, v, 0.0, table)
    for i in range(10):
        begin, end = (0, 6) if i < 6 else (6, 10)
        seen = range(begin, i + 1 if causal else end)
        if kind == "group":
            seen = [j for j in seen if layout.tag[j] == layout.tag[i]]
        elif kind != "global":
            seen = [j for j in seen if abs(j - i) <= 2]
        scores = [
            q[i, 0] @ (k[j, 0] + table[max(-clip, min(clip, j - i)) + clip]) / 3**0.5 for j in seen
        ]
        weights = torch.softmax(torch.stack(scores), dim=0)
        assert torch.allclose(
            found[i], sum(w * v[j, 0] for w, j in zip(weights, seen, strict=True)), atol=1e-12
        )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clip", [None, 2])
def test_an_empty_interval_gives_zeros(engine, clip):
    """Some queries see nothing, in the middle and at the ends: results and gradients are zero,
    never NaN.
    """
    layout = ragged([[1] * 50, [1] * 7])
    reach = by_window(layout, layout, layout.position, 4)
    nothing = np.isin(np.arange(57), [0, 20, 21, 40, 50, 56])
    last = np.where(nothing, reach.first, reach.last)
    reach = Reach(layout, layout, reach.first, last)
    output, *gradients = run(engine, reach, inputs(reach, 2, 4, 1, clip))
    blind = torch.from_numpy(nothing)
    assert output[blind].eq(0).all() and output[~blind].ne(0).all()
    assert gradients[0][blind].eq(0).all() and gradients[0][~blind].ne(0).any()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["group", "global"])
def test_an_empty_side(engine, kind):
    full, empty = ragged([[1, 1, 2], [1, 1, 1]]), ragged([[], []])
    some, nothing = torch.randn(6, 2, 3), torch.zeros(0, 2, 3)
    blind = ENGINES[engine](reach_of(kind, full, empty, False))
    assert torch.equal(blind.attend(some, nothing, nothing, 0.0), torch.zeros(6, 6))
    unread = ENGINES[engine](reach_of(kind, empty, full, False))
    assert unread.attend(nothing, some, some, 0.0).shape == (0, 6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clip", [None, 2])
def test_dropout_drops_whole_weights(engine, clip):
    """Each weight is either gone or twice as large, half of them each; the gradient of v is of the
    same weights.
    """
    layout = ragged([[1] * 60, [1] * 20])
    reach = by_window(layout, layout, layout.position, 6)
    q, k, _, *table = inputs(reach, 1, 80, 1, clip)
    v = (
        torch.eye(80, dtype=torch.float64).unsqueeze(1).requires_grad_()
    )  # outputs are then the weights
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


@pytest.mark.parametrize("clip", [None, 20])
@pytest.mark.parametrize("kind", ["group", ("one_to_one", 20)], ids=str)
def test_nothing_is_as_large_as_the_document_squared(kind, clip):
    """4,096 tokens, in sentences of 16: what blocks against their keys have, forward and
    backward.
    """
    layout = ragged([[1 + i // 16 for i in range(4096)]])
    reach = reach_of(kind, layout, layout, causal=True)
    q, k, v, *table = (x.float().requires_grad_() for x in inputs(reach, 1, 2, 1, clip))
    with Largest() as largest:
        PackedPattern(reach).attend(q, k, v, 0.1, *table).sum().backward()
    assert largest.elements <= 4096 * (64 + 41 + 41)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("clip", [None, 20])
@pytest.mark.parametrize("kind", [(name, 20) for name in CENTRES], ids=str)
def test_on_cuda(monkeypatch, kind, clip):
    for name in (
        "bf16",
        "fp16",
    ):  # else cuBLAS adds up parts of a product in half precision, dense or not
        monkeypatch.setattr(
            torch.backends.cuda.matmul, f"allow_{name}_reduced_precision_reduction", False
        )
    draw = random.Random(1)
    queries, keys = (on_gpu(documents(draw)) for _ in range(2))
    reach = reach_of(kind, queries, keys, causal=False)
    drawn = [x.cuda() for x in inputs(reach, 2, 16, 1, clip)]
    compare(reach, drawn, HALVES, cancelled=True)
