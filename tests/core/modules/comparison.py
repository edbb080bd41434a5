"""What tests of the engines share: outputs and gradients of an engine, and how far they may be from
the dense one's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach
from tests.support import ENGINES, relative_error

# Relative to a float64 dense run. One rounding is 6e-8 in float32; sums of up to 3,000 terms.
FLOAT32, FLOAT32_GRADIENT = 2e-6, 1e-5
ROUNDING = {torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}  # of one number


def states(layout: Ragged, heads: int, dim: int, seed: int) -> Tensor:
    """(N, heads, dim) float64."""
    return torch.randn(
        layout.total, heads, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def run(
    engine: str, reach: Reach, inputs: list[Tensor], dropout: float = 0.0, absolute: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Output and gradients of q, k, v (and the table of relative positions) for a fixed weighting
    of the output.

    The weights are of both signs, unless ``absolute``. Where nothing sees anything, gradients are
    zeros.
    """
    leaves = [x.clone().requires_grad_() for x in inputs]
    q, k, v, *relative = leaves
    output = ENGINES[engine](reach).attend(q, k, v, dropout, *relative)
    weights = torch.linspace(
        -1, 1, output.numel(), dtype=torch.float64, device=output.device
    ).view_as(output)
    weights = weights.abs() if absolute else weights
    if output.requires_grad:
        (output * weights.to(output.dtype)).sum().backward()
    return output.detach(), [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


def compare(
    reach: Reach,
    inputs: list[Tensor],
    engines: Sequence[str],
    halves: Sequence[torch.dtype],
    cancelled: bool = False,
) -> None:
    """Engines against dense in float64, float32 and the types of ``halves``, forward and backward.

    ``cancelled``: results may be little but what rounding leaves of larger numbers (a key's
    gradient is the sum of those from several blocks, the weight of a query's only key depends on
    neither); then the rounding of those counts.
    """
    expected, gradients = run("dense", reach, inputs)
    largest = (
        [x.abs().max() for x in run("dense", reach, inputs, absolute=True)[1]]
        if cancelled
        else [0.0] * 4
    )
    for engine in engines:
        exact, exact_gradients = run(engine, reach, inputs)
        assert relative_error(exact, expected) < 1e-12
        for found, wanted in zip(exact_gradients, gradients, strict=True):
            assert (found - wanted).abs().max() <= 1e-11 * max(1.0, float(wanted.abs().max()))
        single, single_gradients = run(engine, reach, [x.float() for x in inputs])
        assert single.dtype == torch.float32
        assert relative_error(single, expected) < FLOAT32
        for found, wanted, scale in zip(single_gradients, gradients, largest, strict=False):
            bound = FLOAT32_GRADIENT * max(1.0, float(wanted.abs().max()))
            assert (found.double() - wanted).abs().max() <= max(bound, FLOAT32 * scale)
    for dtype in halves:
        compare_in(dtype, reach, [x.to(dtype) for x in inputs], engines, cancelled)


def compare_in(
    dtype: torch.dtype,
    reach: Reach,
    inputs: list[Tensor],
    engines: Sequence[str],
    cancelled: bool = False,
) -> None:
    """Forward and backward, an engine errs at most twice as much as dense, and the rounding of a
    result.

    Errors are those against float64 on the same rounded inputs, as a root mean square and at the
    worst place. In float16, PyTorch's own fused kernel for the CPU errs up to four times as much as
    dense. ``cancelled`` as above; two numbers that cancel have each been rounded by half of the
    type's eps.
    """
    factor = 4 if dtype == torch.float16 else 2
    exact, exact_gradients = run("dense", reach, [x.double() for x in inputs])
    dense, dense_gradients = run("dense", reach, inputs)
    larger = []
    if cancelled:
        output, gradients = run("dense", reach, [x.double() for x in inputs], absolute=True)
        larger = [output, *gradients]
    for engine in engines:
        output, gradients = run(engine, reach, inputs)
        triples = zip(
            [output, *gradients], [dense, *dense_gradients], [exact, *exact_gradients], strict=True
        )
        for number, (found, other, wanted) in enumerate(triples):
            assert found.dtype == dtype
            for size in (lambda x: x.abs().max(), lambda x: x.square().mean().sqrt()):
                ours, theirs = size(found.double() - wanted), size(other.double() - wanted)
                rounded = torch.finfo(dtype).eps * max(map(size, larger), default=0.0)
                bound = factor * theirs + max(ROUNDING[dtype] * size(wanted), rounded)
                name = ["output", *"qkvr"][number]
                assert ours <= bound, (
                    f"{engine}, {name}: {ours:.3e} > {bound:.3e}, dense {theirs:.3e}"
                )
