"""Entropy of attention in bits, H = -sum p log2 p (Bao et al. 2021, section 3.2;
``--doc-attn-entropy``).

For one query, p is the mean over heads of its weights over the visible keys.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.ragged import on_device
from gtransformer.modules.reach import Reach


def query_entropies(module: MultiheadAttention, x: Tensor, memory: Tensor, reach: Reach) -> Tensor:
    """Return (Nq,), the entropy of each query's attention, 0 for one without a visible key.

    Args:
        x: (Nq, channels), states of the queries; memory: (Nk, channels), those of the keys.
    """
    dtype = module.q_proj.weight.dtype
    queries = module.project_queries(x.to(dtype), reach.queries.tag)
    keys, _ = module.keys_and_values(memory.to(dtype), reach.keys.tag)
    queries = queries * queries.shape[-1] ** -0.5
    bits = queries.new_zeros(len(queries))
    first, last, order = (
        on_device(one, x.device) for one in (reach.first, reach.last, reach.order)
    )
    documents = on_device(reach.queries.doc, x.device)
    for document in range(reach.queries.batch):
        rows = documents.eq(document).nonzero().squeeze(1)
        if not len(rows):
            continue
        ranks = torch.arange(int(first[rows].min()), int(last[rows].max()), device=x.device)
        seen = (ranks >= first[rows, None]) & (ranks < last[rows, None])
        scores = torch.einsum("qhd,khd->hqk", queries[rows], keys[order[ranks]])
        weights = scores.masked_fill(~seen, -math.inf).softmax(dim=-1).nan_to_num().mean(dim=0)
        bits[rows] = torch.special.entr(weights).sum(dim=-1) / math.log(2)
    return bits


@contextmanager
def measured(model: nn.Module) -> Iterator[dict[str, float]]:
    """Measure the entropy of every attention of a model, without relative positions, while it runs.

    Yields:
        by name sums over layers and queries that see a key: ``PART_REACH``, the entropies;
        ``PART_REACH_flat``, those of uniform attention; ``PART_REACH_queries``, how many there are.
    """
    sums: dict[str, float] = defaultdict(float)

    def hook(part: str, scopes):
        def add(module, inputs, _output) -> None:
            x, memory, *patterns = inputs
            for scope, pattern in zip(scopes, patterns, strict=True):
                name, reach = f"{part}_{scope.name}", pattern.reach
                keys = (reach.last - reach.first).clip(min=1)
                with torch.autocast(
                    x.device.type, enabled=False
                ):  # in the precision of the parameters
                    bits = query_entropies(module, x, memory, reach)
                sums[name] += float(bits.double().sum())
                sums[f"{name}_flat"] += float(torch.from_numpy(keys).double().log2().sum())
                sums[f"{name}_queries"] += int((reach.last > reach.first).sum())

        return add

    handles = []
    for side in ("encoder", "decoder"):
        for layer in getattr(getattr(model, side, None), "layers", ()):
            for block in getattr(layer, "blocks", ()):
                part = (
                    side
                    if block.memory is None
                    else "cross"
                    if block.memory == "source"
                    else block.memory
                )
                for name, scopes in zip(block.modules, block.scopes, strict=True):
                    module = getattr(layer, name)
                    if isinstance(module, MultiheadAttention) and module.relative is None:
                        handles.append(module.register_forward_hook(hook(part, scopes)))
    try:
        yield sums
    finally:
        for handle in handles:
            handle.remove()
