"""The packed engine against the dense one, which is Eq. 6-7 written out."""

from __future__ import annotations

import random

import pytest
import torch
from fairseq import options

from gtransformer.models.common.config import GROUP_ATTENTION_ENGINES
from gtransformer.modules.attention import ENGINES, make_pattern
from gtransformer.modules.packed import PackedPattern
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_document, by_sentence
from tests.core.modules.comparison import compare, run, states
from tests.support import ragged

pytestmark = pytest.mark.slow

FAST = [engine for engine in ENGINES if engine != "dense"]
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
    pattern = make_pattern("packed", by_sentence(layout, layout, causal=True))
    pairs = sum(
        b.query_index.shape[0] * b.query_index.shape[1] * b.key_index.shape[1] for b in pattern.bucketed.buckets
    )
    assert pairs == 100 * 10 * 10
    mixed = ragged([tags_of([random.Random(i).randint(1, 80) for i in range(200)])])
    pattern = make_pattern("packed", by_sentence(mixed, mixed, causal=True))
    gathered = sum(bucket.key_index.numel() for bucket in pattern.bucketed.buckets)
    assert mixed.total <= gathered < 2 * mixed.total


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_buckets_of_recurring_shapes_compute_the_same(kind, seed):
    """Those that bfloat16 on a CPU has, here in float64 against dense; also where source and target differ."""
    source, target = ragged(random_tags(seed, side=1), left=True), ragged(random_tags(seed))
    for keys in (target,) if KINDS[kind]["causal"] else (target, source):
        reach = reach_of(target, keys, **KINDS[kind])
        q, k, v = (states(layout, 2, 3, seed + i).requires_grad_() for i, layout in enumerate((target, keys, keys)))
        weights = states(target, 2, 3, 9).flatten(1)
        outputs = [
            pattern.attend(q, k, v, 0.0) for pattern in (PackedPattern(reach).recurring, ENGINES["dense"](reach))
        ]
        found, expected = (
            [output.detach(), *torch.autograd.grad((output * weights).sum(), (q, k, v))] for output in outputs
        )
        for ours, dense in zip(found, expected, strict=True):
            assert (ours - dense).abs().max() <= 1e-11 * max(1.0, float(dense.abs().max()))


def test_recurring_shapes_are_few():
    """Of 200 batches of documents, in sentences of 2 to 60 tokens; without rounding there are several times as many."""
    draw, shapes = random.Random(1), {"recurring": set(), "bucketed": set()}
    for _ in range(200):
        layout = ragged([tags_of([draw.randint(2, 60) for _ in range(draw.randint(2, 15))]) for _ in range(10)])
        for reach in (by_sentence(layout, layout), by_document(layout, layout)):
            pattern = PackedPattern(reach)
            for plan, found in shapes.items():
                found |= {tuple(bucket.key_index.shape) for bucket in getattr(pattern, plan).buckets}
            tokens = sum(bucket.key_index.numel() for bucket in pattern.recurring.buckets)
            assert layout.total <= tokens < 2 * layout.total
    assert 5 * len(shapes["recurring"]) < len(shapes["bucketed"])


def test_recurring_shapes_leave_short_sides_short():
    """Few queries against many keys, and the other way round, are not padded to squares; nor are long ones."""
    for queries, keys in ((1, 500), (30, 500), (500, 20), (600, 1000), (1100, 950), (900, 1100)):
        reach = by_document(ragged([[1] * queries]), ragged([[1] * keys]))
        (bucket,) = PackedPattern(reach).recurring.buckets
        assert bucket.query_index.shape[1] < queries + 32 and bucket.key_index.shape[1] < keys + 32


def test_recurring_shapes_are_for_bfloat16_on_a_cpu():
    layout = ragged([tags_of([5, 9])])
    q = k = v = states(layout, 2, 4, 0)
    for dtype, relative, recurring in (
        (torch.bfloat16, None, True),
        (torch.float32, None, False),
        (torch.bfloat16, torch.zeros(5, 4), False),
    ):
        pattern = PackedPattern(by_document(layout, layout))
        sides = [one.to(dtype) for one in (q, k, v)]
        pattern.attend(*sides, 0.0, None if relative is None else relative.to(dtype))
        assert ("recurring" in vars(pattern), "bucketed" in vars(pattern)) == (recurring, not recurring)


def test_an_engine_that_is_none_is_refused(capsys):
    """All that --group-attention offers is there; anything else is refused before a model is built."""
    layout = ragged([[1]])
    line = ["data", "--task=translation_doc", "--arch=gtransformer_mini", "--group-attention"]
    for engine in GROUP_ATTENTION_ENGINES:
        args = options.parse_args_and_arch(options.get_training_parser(), [*line, engine])
        assert isinstance(make_pattern(args.group_attention, by_sentence(layout, layout)), ENGINES[engine])
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(options.get_training_parser(), [*line, "sparse"])
    assert "argument --group-attention: invalid choice: 'sparse'" in capsys.readouterr().err
