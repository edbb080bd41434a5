"""The check of attention on a GPU, as far as a processor shows it: bounds, and what computed the segments."""

from __future__ import annotations

from gtransformer.lab.benchmark.gpu import kernels
from gtransformer.modules import varlen


def test_attention_is_within_its_bound(monkeypatch):
    rows = kernels.compare("cpu", small=True)
    assert len(rows) == 2 * len(kernels.KINDS) and all(row["within"] and not row["kernel"] for row in rows)
    assert all(0 < error < 0.02 for row in rows for error in row["errors"].values())
    assert kernels.is_within({"values": 0.01}, False, "cpu") and kernels.is_within({"values": 0.01}, True, "cuda")
    assert not kernels.is_within({"values": 0.01}, False, "cuda"), "the buckets computed it"
    passes = kernels.passes

    def wrong(engine, *more):
        values, seconds = passes(engine, *more)
        return [values[0], values[1] * (1.1 if engine == "packed" else 1), *values[2:]], seconds

    monkeypatch.setattr(kernels, "passes", wrong)
    assert not any(row["within"] for row in kernels.compare("cpu", small=True))


def test_calls_of_the_kernel_are_counted(monkeypatch):
    """As if it were there: every kind of attention goes through it, and a pass that does not is told from it."""

    def attend(segments, q, k, v, causal):
        return q.index_select(0, segments.query) + 0 * (k.sum() + v.sum())  # all have a gradient

    monkeypatch.setattr(varlen, "is_usable", lambda q, dropout: True)
    monkeypatch.setattr(varlen.VarlenSegments, "attend", attend)
    assert all(row["kernel"] for row in kernels.compare("cpu", small=True))
    assert varlen.VarlenSegments.attend is attend
