"""What tests of the engines share: outputs and gradients of an engine, and how far they may be from
the dense one's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach
from tests.support import ENGINES


def states(layout: Ragged, heads: int, dim: int, seed: int) -> Tensor:
    """(N, heads, dim) float64."""
    return torch.randn(
        layout.total, heads, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def run(engine: str, reach: Reach, inputs: list[Tensor], absolute: bool = False) -> list[Tensor]:
    """Output and gradients of q, k, v (and the table of relative positions) for a fixed weighting
    of the output.

    The weights are of both signs, unless ``absolute``. Where nothing sees anything, gradients are
    zeros.
    """
    leaves = [x.clone().requires_grad_() for x in inputs]
    q, k, v, *relative = leaves
    output = ENGINES[engine](reach).attend(q, k, v, 0.0, *relative)
    weights = torch.linspace(
        -1, 1, output.numel(), dtype=torch.float64, device=output.device
    ).view_as(output)
    weights = weights.abs() if absolute else weights
    if output.requires_grad:
        (output * weights.to(output.dtype)).sum().backward()
    return [output.detach(), *(torch.zeros_like(x) if x.grad is None else x.grad for x in leaves)]


def compare(
    reach: Reach, inputs: list[Tensor], types: Sequence[torch.dtype], cancelled: bool
) -> None:
    """The packed engine against the dense one in float64; in half precision as ``compare_in``."""
    expected = run("dense", reach, inputs)
    for dtype, bound in ((torch.float64, 1e-11), (torch.float32, 5e-6)):
        found = run("packed", reach, [x.to(dtype) for x in inputs])
        for one, exact in zip(found, expected, strict=True):
            assert one.dtype == dtype
            assert (one - exact).abs().max() <= bound * max(1.0, float(exact.abs().max()))
    for dtype in types:
        compare_in(dtype, reach, inputs, cancelled)


def compare_in(dtype: torch.dtype, reach: Reach, inputs: list[Tensor], cancelled: bool) -> None:
    """Forward and backward, the packed engine errs at most twice as much as the dense one, and the
    rounding of a result.

    Errors are those against float64 on the same rounded inputs, as a root mean square and at the
    worst place. In float16, PyTorch's own fused kernel for the CPU errs up to four times as much as
    dense.

    ``cancelled``: results may be little but what rounding leaves of larger numbers (a key's
    gradient is the sum of those from several blocks, the weight of a query's only key depends on
    neither); then the rounding of those counts, half of the type's eps for each of two numbers.
    """
    inputs = [x.to(dtype) for x in inputs]
    wide, eps = [x.double() for x in inputs], torch.finfo(dtype).eps
    results = run("packed", reach, inputs), run("dense", reach, inputs), run("dense", reach, wide)
    larger = run("dense", reach, wide, absolute=True)
    for name, found, dense, exact in zip("oqkvr", *results, strict=False):
        assert found.dtype == dtype
        for size in (lambda x: x.abs().max(), lambda x: x.square().mean().sqrt()):
            ours, theirs = size(found.double() - exact), size(dense.double() - exact)
            rounded = eps * max(map(size, larger)) if cancelled else eps / 4 * size(exact)
            bound = (4 if dtype == torch.float16 else 2) * theirs + rounded
            assert ours <= bound, f"{name}: {ours:.3e} > {bound:.3e}, dense {theirs:.3e}"
