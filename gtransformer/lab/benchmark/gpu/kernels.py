"""Attention of the packed engine in half precision against the dense one in float64: values and gradients.

On a GPU its segments go through PyTorch's kernel for sequences of unequal length, where that is usable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from gtransformer.lab.benchmark.systems import now
from gtransformer.modules import varlen
from gtransformer.modules.attention import make_pattern
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import by_document, by_sentence

KINDS = {
    "encoder, sentences": (by_sentence, True, False),
    "encoder, document": (by_document, True, False),
    "decoder, sentences": (by_sentence, True, True),
    "decoder, document": (by_document, True, True),
    "source, sentences": (by_sentence, False, False),
    "source, document": (by_document, False, False),
}
PRECISIONS = ("float16", "bfloat16")
BOUND = 0.02  # largest error over largest magnitude


def layout(documents: int, sentences: int, words: int, device: str, generator: torch.Generator) -> Ragged:
    """Documents of so many sentences, each of half to one and a half times as many words."""
    lengths = torch.randint(words // 2, 3 * words // 2, (documents, sentences), generator=generator)
    rows = [torch.repeat_interleave(torch.arange(1, sentences + 1), row) for row in lengths]
    tags = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
    return Ragged(tags > 0, tags)


def compare(device: str, small: bool) -> list[dict]:
    """Every kind of attention in either precision.

    Returns:
        one dictionary each: ``kernel``, whether segments went through the kernel of unequal lengths; ``errors`` of
        values and of the gradients of q, k and v, largest error over largest magnitude; ``seconds`` of both passes,
        a second run; ``within`` the bound and, on CUDA, through the kernel.
    """
    generator = torch.Generator().manual_seed(1)
    documents, sentences, words, heads, dim = (2, 3, 6, 2, 16) if small else (8, 16, 30, 8, 64)
    target, source = (layout(documents, sentences, words, device, generator) for _ in range(2))
    rows = []
    for precision in PRECISIONS:
        dtype = getattr(torch, precision)
        for kind, (rule, own, causal) in KINDS.items():
            keys = target if own else source
            drawn = [torch.randn(side.total, heads, dim, generator=generator) for side in (target, keys, keys)]
            upstream = torch.randn(target.total, heads * dim, generator=generator).to(device)
            reach = rule(target, keys, causal)
            q, k, v = (one.to(device, dtype) for one in drawn)
            exact = passes("dense", reach, [one.double() for one in (q, k, v)], upstream.double())[0]
            found, _ = passes("packed", reach, [q, k, v], upstream.to(dtype))
            with counted_calls() as calls:  # not in the first run, in which the kernel may be tried on a small case
                _, seconds = passes("packed", reach, [q, k, v], upstream.to(dtype))
            names = ("values", "gradient of q", "gradient of k", "gradient of v")
            errors = {name: error(*pair) for name, *pair in zip(names, found, exact, strict=True)}
            kernel = bool(calls)
            within = is_within(errors, kernel, device)
            rows.append({"attention": kind, "precision": precision, "kernel": kernel, "errors": errors,
                         "seconds": round(seconds, 5), "within": within})  # fmt: skip
    return rows


def is_within(errors: dict[str, float], kernel: bool, device: str) -> bool:
    """Whether all errors are below BOUND, and on a GPU those of the kernel, not of the buckets that do without it."""
    return max(errors.values()) < BOUND and (kernel or device != "cuda")


@contextmanager
def counted_calls() -> Iterator[list[None]]:
    """A list with an entry for each time that segments went through the kernel of unequal lengths."""
    calls, attend = [], varlen.VarlenSegments.attend

    def counted(*sides, **options) -> Tensor:
        calls.append(None)
        return attend(*sides, **options)

    varlen.VarlenSegments.attend = counted
    try:
        yield calls
    finally:
        varlen.VarlenSegments.attend = attend


def passes(engine: str, reach, sides: list[Tensor], upstream: Tensor) -> tuple[list[Tensor], float]:
    """Values and the gradients of q, k, v of an engine's attention; seconds of both passes."""
    sides = [one.detach().requires_grad_() for one in sides]
    pattern = make_pattern(engine, reach)
    began = now(upstream.device.type)
    values = pattern.attend(*sides, 0.0)
    values.backward(upstream)
    seconds = now(upstream.device.type) - began
    return [values.detach(), *(one.grad for one in sides)], seconds


def error(found: Tensor, exact: Tensor) -> float:
    """Largest error over largest magnitude."""
    return float(f"{float((found.double() - exact).abs().max() / exact.abs().max()):.3g}")
