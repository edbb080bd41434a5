"""The packed engine against the dense one, which is Eq. 6-7 written out."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.modules.packed import PackedPattern
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_document, by_sentence
from tests.core.modules.comparison import compare, run, states
from tests.support import ENGINES, ragged

pytestmark = pytest.mark.slow

FAST = ["packed"]
SEEDS = [1, 2, 4, 11]  # documents of 1 to 733 tokens; each shape of heads once
KINDS = {
    "group": {"local": True, "causal": False},
    "group, causal": {"local": True, "causal": True},
    "global": {"local": False, "causal": False},
    "global, causal": {"local": False, "causal": True},
}


def tags_of(lengths: list[int]) -> list[int]:
    return [tag for tag, length in enumerate(lengths, 1) for _ in range(length)]


def random_tags(seed: int, documents: int = 3, side: int = 0) -> list[list[int]]:
    """Documents of 1 to 40 sentences of 1 to 80 tokens (``<s>`` included), one of them very short."""
    draw = random.Random(seed * 2 + side)
    shapes = random.Random(seed)
    batch = []
    for number in range(documents):
        sentences = 1 if number == 1 else shapes.randint(1, 40)
        longest = shapes.choice([1, 5, 20, 80])
        batch.append(tags_of([draw.choice([1, draw.randint(1, longest)]) for _ in range(sentences)]))
    return batch


def reach_of(queries: Ragged, keys: Ragged, local: bool, causal: bool) -> Reach:
    return (by_sentence if local else by_document)(queries, keys, causal)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_self_attention_on_random_documents(kind, seed):
    layout = ragged(random_tags(seed), left=seed % 2 == 0)
    heads, dim = [(2, 8), (3, 7), (1, 5), (4, 1)][seed % 4]
    qkv = [states(layout, heads, dim, 3 * seed + i) for i in range(3)]
    compare(reach_of(layout, layout, **KINDS[kind]), qkv, FAST, [torch.bfloat16])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("local", [True, False])
def test_cross_attention_on_random_documents(local, seed):
    source, target = ragged(random_tags(seed, side=1), left=True), ragged(random_tags(seed))
    heads, dim = [(2, 8), (3, 7), (1, 5), (4, 1)][seed % 4]
    q = states(target, heads, dim, seed)
    k, v = states(source, heads, dim, seed + 50), states(source, heads, dim, seed + 90)
    compare(reach_of(target, source, local, False), [q, k, v], FAST, [torch.bfloat16])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_target_sentence_without_source_sentence_gives_exactly_zero(engine):
    source, target = ragged([tags_of([3, 2]), tags_of([2])]), ragged([tags_of([2, 4, 3]), tags_of([1, 1])])
    q, k, v = states(target, 2, 3, 0), states(source, 2, 3, 1), states(source, 2, 3, 2)
    output, gradients = run(engine, by_sentence(target, source), [q, k, v])
    surplus = torch.from_numpy((target.tag == 3) | ((target.tag == 2) & (target.doc == 1)))
    assert surplus.sum() == 4
    assert output[surplus].eq(0).all()
    assert output[~surplus].ne(0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[0][surplus].eq(0).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_hand_made_pattern(engine, kind):
    """Tags 1 2 2 3 1 3: who sees whom, read off the gradient of each output with respect to the values."""
    tags = [1, 2, 2, 3, 1, 3]
    layout = ragged([tags])
    local, causal = KINDS[kind]["local"], KINDS[kind]["causal"]
    q, k = states(layout, 1, 2, 0), states(layout, 1, 2, 1)
    v = torch.eye(6, dtype=torch.float64).unsqueeze(1)  # the output of a query is then its attention weights
    weights = ENGINES[engine](reach_of(layout, layout, local, causal)).attend(
        torch.cat([q] * 3, dim=2), torch.cat([k] * 3, dim=2), v, 0.0
    )
    for i in range(6):
        for j in range(6):
            sees = (not causal or j <= i) and (not local or tags[i] == tags[j])
            assert (weights[i, j] > 0) == sees, (i, j)
    assert torch.allclose(weights.sum(dim=1), torch.ones(6, dtype=torch.float64))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_side(engine):
    empty = Ragged(torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 3, dtype=torch.int64))
    full = ragged([tags_of([2, 1]), [1, 1, 1]])
    for local in (True, False):
        nothing = torch.zeros(0, 2, 3)
        some = torch.randn(full.total, 2, 3)
        output = ENGINES[engine](reach_of(full, empty, local, False)).attend(some, nothing, nothing, 0.0)
        assert output.shape == (full.total, 6) and output.eq(0).all()
        assert ENGINES[engine](reach_of(empty, full, local, False)).attend(nothing, some, some, 0.0).shape == (0, 6)


def test_packed_makes_nothing_as_large_as_the_document_squared():
    """100 sentences of 10 tokens: keys gathered for group attention are a few times the tokens, not their square."""
    layout = ragged([tags_of([10] * 100)])
    pattern = PackedPattern(by_sentence(layout, layout, causal=True))
    pairs = sum(bucket.queries.size * bucket.keys.shape[1] for bucket in pattern.buckets)
    assert pairs == 100 * 10 * 10
    mixed = ragged([tags_of([random.Random(i).randint(1, 80) for i in range(200)])])
    pattern = PackedPattern(by_sentence(mixed, mixed, causal=True))
    gathered = sum(bucket.keys.size for bucket in pattern.buckets)
    assert mixed.total <= gathered < 2 * mixed.total
