"""Decoding steps of fixed sizes as on a GPU, where a CUDA graph repeats their kernels: here a
recording of the operations does.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gtransformer.models.common.blocks import ByDocument
from gtransformer.models.common.decoding import caches, plan
from gtransformer.modules.reach import by_document
from gtransformer.search.beam import BeamSearch
from gtransformer.search.sequential import SequentialGenerator
from gtransformer.search.strategies import PARALLEL, SEQUENTIAL, Strategy
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.support import tiny_model

SHAPES = [[3, 1, 4, 2, 5], [2], [1, 6, 2], [4, 0, 3, 3], [2] * 20]
READS = {"_local_scalar_dense", "nonzero", "is_nonzero", "equal"}  # what a graph cannot do


def is_view(operation):
    returns = operation._schema.returns
    return any(one.alias_info and not one.alias_info.is_write for one in returns)


class Recording(TorchDispatchMode):
    """Operations with their tensors, to be repeated in place."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, operation, types, given=(), options=None):
        assert operation._overloadpacket.__name__ not in READS
        result = operation(*given, **(options or {}))
        if not is_view(operation):
            self.calls.append((operation, given, options or {}, tree_leaves(result)))
        return result

    def repeat(self):
        for operation, given, options, results in self.calls:
            for old, new in zip(results, tree_leaves(operation(*given, **options)), strict=True):
                if new is not old:
                    old.copy_(new)


class Replays(Counter):
    """How many steps were recorded and repeated."""

    def __init__(self, plans):
        super().__init__()
        self.plans = plans

    def memory(self):
        return [one for made in self.plans for one in made.memory.values()]

    def capture(self, compute, pool, device):
        recording, before = Recording(), [(one, one.clone()) for one in self.memory()]
        with recording:
            result = compute()
        for one, values in before:  # a capture computes nothing
            one.copy_(values)
        self["captured"] += 1
        return lambda: (self.update(["repeated"]), recording.repeat()), result, pool


@pytest.fixture
def replays(monkeypatch):
    plans, begin = [], plan.Plan.__init__
    monkeypatch.setattr(
        plan.Plan, "__init__", lambda self, *given: (plans.append(self), begin(self, *given))[1]
    )
    found = Replays(plans)
    monkeypatch.setattr(plan, "capture", found.capture)
    monkeypatch.setattr(plan, "CAPTURING", ("cpu",))
    monkeypatch.setattr(caches, "FUSED", ())
    monkeypatch.setattr(caches, "LEAST", 4)  # so that short sentences fill several blocks
    return found


def found_by(dictionary, model, batches, way, beam):
    task = {"strategy": PARALLEL} if way == PARALLEL else {}
    translate = Translator(dictionary, [model], task, max_len_a=1.2, max_len_b=2, beam=beam)
    if way == SEQUENTIAL:
        translate.generator = SequentialGenerator(translate.generator, Strategy(way, context=2))
    model.decoder.hold_weights()
    return [
        (one["tokens"].tolist(), pytest.approx(float(one["score"]), rel=1e-6))
        for batch in batches
        for nbest in translate(batch)
        for one in nbest
    ]


@torch.no_grad()
@pytest.mark.parametrize("way", ["full", PARALLEL, SEQUENTIAL])
@pytest.mark.parametrize("name", SYSTEMS)
def test_hypotheses_are_the_same(dictionary, documents, replays, monkeypatch, name, way):
    """Of batches of several sizes one after the other, which share what was captured."""
    model, draw = SYSTEMS[name](dictionary), random.Random(5)
    batches = [documents(draw, shapes) for shapes in (SHAPES, SHAPES[:2], SHAPES[1:])]
    for beam in (1, 3):
        found = found_by(dictionary, model, batches, way, beam)
        with monkeypatch.context() as patch:
            patch.setattr(plan, "CAPTURING", ())
            assert found == found_by(dictionary, model, batches, way, beam)
    assert replays["repeated"] > replays["captured"] > 0


class Operations(TorchDispatchMode):
    """How many operations a step has that are no views."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, given=(), options=None):
        self.count += not is_view(operation)
        return operation(*given, **(options or {}))


@torch.no_grad()
@pytest.mark.parametrize("number", [1, 3])
def test_what_the_host_does(dictionary, documents, replays, monkeypatch, number):
    """Most steps take few operations outside the graph, and all wait once; three documents are
    computed as four.
    """
    counts, step, cpu = [], BeamSearch._step, torch.Tensor.cpu

    def counted(self):
        waits.clear()
        with Operations() as operations:
            step(self)
        counts.append((operations.count, len(waits)))

    def capture(compute, pool, device):
        result = compute()
        return lambda: None, result, pool  # only the host counts

    waits = []
    monkeypatch.setattr(plan, "capture", capture)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: (waits.append(1), cpu(self))[1])
    monkeypatch.setattr(BeamSearch, "_step", counted)
    batch = documents(random.Random(5), [[30, 30]] * number)
    found_by(dictionary, tiny_model(dictionary), [batch], "full", 3)
    operations, waits = zip(*counts, strict=True)
    assert set(waits) <= {0, 1} and sorted(operations)[len(operations) // 2] <= 5


@torch.no_grad()
def test_self_attention_ends_with_the_query(dictionary, documents, monkeypatch):
    """Elsewhere decoding would see other tokens than training."""

    def without_the_last(scope, queries, keys, causal):
        reach = by_document(queries, keys, causal)
        reach.last = reach.last - causal
        return reach

    monkeypatch.setattr(ByDocument, "reach", without_the_last)
    batch = documents(random.Random(5), [[2]])
    with pytest.raises(ValueError, match="ends with the query"):
        found_by(dictionary, tiny_model(dictionary), [batch], "full", 1)


@torch.no_grad()
def test_what_cannot_be_captured_is_computed(dictionary, documents, monkeypatch, caplog):
    def fails(compute, pool, device):
        raise RuntimeError("operation not permitted when stream is capturing")

    model, batch = tiny_model(dictionary), documents(random.Random(5), SHAPES)
    expected = found_by(dictionary, model, [batch], "full", 3)
    monkeypatch.setattr(plan, "capture", fails)
    monkeypatch.setattr(plan, "CAPTURING", ("cpu",))
    assert found_by(dictionary, model, [batch], "full", 3) == expected
    (record,) = caplog.records
    assert "not permitted" in record.getMessage()
