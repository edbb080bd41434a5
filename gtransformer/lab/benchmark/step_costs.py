"""What a step of decoding costs: bytes that are read, arithmetic, and processor time by part.

The floor of a step is the time to read its weights and caches once from memory, or its arithmetic at the full rate,
whichever is longer. Bandwidth and rate are measured on the same machine, with one thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from unittest.mock import patch

import torch
from torch import Tensor

from gtransformer.models.common.decoding.state import CachedState
from gtransformer.models.common.decoding.view import MemoryPattern, PrefixPattern
from gtransformer.modules.kernels import PackedLinear
from gtransformer.search.beam import BeamSearch

LARGE = 1 << 26  # elements of a tensor that no cache holds
SQUARE = 1024  # rows and columns of a product whose time is arithmetic
REPEATS = 7


class StepCosts:
    """Counts of all steps of the searches within ``counted``.

    Attributes:
        bytes: read by ``layers`` and ``projection`` (weights) and from ``caches``.
        flops: multiplications and additions of these parts.
        seconds: processor time of ``layers`` and ``projection`` (products), ``attention``, ``model`` (all of the
            decoder's step, with the projection) and ``step`` (with the search).
        steps, rows: steps of the model, and hypotheses read by all of them.
    """

    def __init__(self, vocabulary: int):
        self.vocabulary = vocabulary
        self.bytes, self.flops, self.seconds = Counter(), Counter(), Counter()
        self.steps = self.rows = 0
        self.inside = False  # a step

    def _enter(self) -> None:
        self.inside = True

    @contextmanager
    def counted(self) -> Iterator[StepCosts]:
        """Count within it; decoding is on the CPU, with one thread."""

        def product(self_: PackedLinear, x: Tensor, seconds: float, _: Tensor) -> None:
            if not self.inside:
                return
            part = "projection" if self_.shape[0] == self.vocabulary else "layers"
            # oneDNN hides its layout of the weights, not their shape.
            self.bytes[part] += self_.shape.numel() * self_.dtype.itemsize
            self.flops[part] += 2 * len(x) * self_.shape.numel()
            self.seconds[part] += seconds

        def attention(pattern, q: Tensor, module, own: Tensor | None, *arguments) -> None:
            self.seconds["attention"] += arguments[-2]
            read = [] if own is None else [own[:, :, :, pattern.first :]]
            if module in pattern.reading.gathered:
                read.append(pattern.reading.gathered[module])
            numbers = sum(sides.numel() for sides in read)
            self.bytes["caches"] += numbers * q.element_size()
            self.flops["caches"] += 2 * numbers * pattern.reading.beam

        def model(_self, *arguments) -> None:
            self.seconds["model"] += arguments[-2]

        def step(_self, seconds: float, _: None) -> None:
            self.seconds["step"] += seconds
            self.inside = False

        def rows(_self, tokens: Tensor, *arguments) -> None:
            self.steps += 1
            self.rows += len(tokens)
            model(_self, *arguments)

        with ExitStack() as stack:

            def watch(owner, name: str, note: Callable[..., None], before: Callable[[], None] | None = None) -> None:
                stack.enter_context(patch.object(owner, name, watched(getattr(owner, name), note, before)))

            watch(PackedLinear, "__call__", product)
            watch(CachedState, "step", rows)
            watch(CachedState, "logits", model)
            watch(BeamSearch, "_step", step, self._enter)
            for kind in (PrefixPattern, MemoryPattern):
                watch(kind, "attend", attention)
            yield self

    def per_step(self, bandwidth: float, rate: float) -> dict:
        """Return all counts for a step, and its floor in seconds.

        Args:
            bandwidth: bytes per second that the machine reads.
            rate: arithmetic operations per second.
        """
        n, seconds = self.steps, self.seconds
        parts = {name: seconds[name] for name in ("layers", "projection", "attention")}
        parts["rest of the model"] = seconds["model"] - sum(parts.values())
        parts["search"] = seconds["step"] - seconds["model"]
        read, work = sum(self.bytes.values()), sum(self.flops.values())
        return {
            "steps": n, "rows": self.rows / n, "bytes": {name: count / n for name, count in self.bytes.items()},
            "flops": {name: count / n for name, count in self.flops.items()},
            "seconds": {name: value / n for name, value in parts.items()} | {"step": seconds["step"] / n},
            "bandwidth": bandwidth, "rate": rate, "floor": max(read / bandwidth, work / rate) / n,
        }  # fmt: skip


def watched(function: Callable, note: Callable[..., None], before: Callable[[], None] | None = None) -> Callable:
    """Return a function that passes its arguments, processor seconds and result to ``note``."""

    @wraps(function)
    def call(*arguments):
        if before is not None:
            before()
        began = time.thread_time()
        result = function(*arguments)
        note(*arguments, time.thread_time() - began, result)
        return result

    return call


def measure_machine() -> tuple[float, float]:
    """Return the bytes that one thread reads from memory in a second, and its arithmetic operations in float32."""
    numbers, square = torch.ones(LARGE), torch.nn.Linear(SQUARE, SQUARE, bias=False)
    multiply, x = PackedLinear(square), torch.ones(SQUARE, SQUARE)
    return (
        4 * LARGE / min(map(_seconds, [numbers.sum] * REPEATS)),
        2 * SQUARE**3 / min(map(_seconds, [lambda: multiply(x)] * REPEATS)),
    )


def _seconds(work: Callable[[], Tensor]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def cost_table(rows: list[dict]) -> list[list[str]]:
    """Return a line for each profile, in milliseconds and megabytes a step."""
    parts = ("layers", "projection", "attention", "rest of the model", "search", "step")
    table = [
        ["one step", "documents", "MB weights", "MB caches", "GFLOP", "floor, ms", *(f"{one}, ms" for one in parts)]
    ]
    for row in rows:
        one = row["profile"]
        read = one["bytes"]
        weights = (read["layers"] + read["projection"]) / 1e6
        cells = [f"{weights:.0f}", f"{read['caches'] / 1e6:.1f}", f"{sum(one['flops'].values()) / 1e9:.2f}"]
        cells += [f"{1000 * value:.1f}" for value in (one["floor"], *(one["seconds"][part] for part in parts))]
        table.append([row["name"], str(row["documents"]), *cells])
    return table
