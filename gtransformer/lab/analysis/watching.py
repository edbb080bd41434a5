"""Observation of every attention of a running model, and attention weights computed separately from it.

A model must have an encoder or a decoder whose ``layers`` declare ``blocks`` of attention
(``models.common.blocks.AttentionBlock``) and return their modules (``modules_of``, ``gate_of`` of
``models.common.layer.Layer``). ``can_be_watched`` checks this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gtransformer.lab.analysis.dense import DensePattern, attention_weights
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, Scope
from gtransformer.models.common.layer import Layer
from gtransformer.modules.attention import MultiheadAttention, Pattern
from gtransformer.modules.packed import Bucket
from gtransformer.modules.ragged import on_device
from gtransformer.modules.reach import Reach
from gtransformer.modules.relative import clipped_distance
from gtransformer.modules.ssru import Ssru

PARTS = ("encoder", "decoder", "cross")  # self-attention of encoder and decoder, and the decoder's to the source
# Self-attention of a context encoder, and the attention of encoder and decoder to the context.
CONTEXT_PARTS = ("context", "encoder_context", "decoder_context")
# Across the instances of a batch, before the first layer of encoder and decoder: a single one, counted as layer 1.
BATCH_PARTS = ("encoder_batch", "decoder_batch")
WEIGHTS_AT_ONCE = 1 << 24  # attention weights in memory at a time: 64 MiB in float32


@dataclass(frozen=True)
class AttentionSite:
    """One attention of a model: part, reach (the scope's name, "group" or "global"), layer from 1.

    The part is one of PARTS, CONTEXT_PARTS and BATCH_PARTS, or names the side and another memory that it attends to.
    """

    part: str
    reach: str
    layer: int


def declared(model: nn.Module) -> Iterator[tuple[str, int, Layer, AttentionBlock]]:
    """Iterate over part, number from 1, layer and block of all declared attention, lowest layer first."""
    encoder = getattr(model, "encoder", None)
    context_encoder = getattr(encoder, "context_encoder", None)
    for side, stack in (
        ("encoder", encoder),
        ("context", context_encoder),
        ("decoder", getattr(model, "decoder", None)),
    ):
        for number, layer in enumerate(getattr(stack, "layers", ()), 1):
            for block in getattr(layer, "blocks", ()):
                other = "cross" if block.memory == "source" else f"{side}_{block.memory}"
                part = side if block.memory is None else other
                yield part, number, layer, block


def across_batch(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Iterate over part and module (with its ``attention``) of attention across the instances of a batch."""
    for part in BATCH_PARTS:
        front = getattr(getattr(model, part.removesuffix("_batch"), None), "batch_front", None)
        if front is not None and front.across is not None:
            yield part, front.across


def can_be_watched(model: nn.Module) -> bool:
    """Return whether any layer of the model declares its attention."""
    return next(declared(model), None) is not None


@contextmanager
def watching(
    model: nn.Module, see: Callable[..., None], see_gate: Callable[[str, int, Tensor], None] | None = None
) -> Iterator[None]:
    """Call these while the model runs.

    Args:
        see: called as ``see(site, module, x, memory, pattern)`` with the inputs of an attention module, once for each
            of its scopes: states of queries (Nq, channels) and keys (Nk, channels), and the engine's pattern.
        see_gate: called with part, layer and the values (Nq, channels) of every gate of Eq. 10 (Bao et al. 2021), of
            Eq. 22 (Zhang et al. 2018) around attention to another memory than the source, and of Eq. 8 and 9 (Wu et al.
            2023) after attention across a batch.
    """
    handles = []

    def attention_hook(part: str, number: int, scopes: tuple[Scope, ...]):
        def hook(module, inputs, output):
            x, memory, *patterns = inputs
            for scope, pattern in zip(scopes, patterns, strict=True):
                see(AttentionSite(part, scope.name, number), module, x, memory, pattern)

        return hook

    def gate_hook(part: str, number: int):
        return lambda module, inputs, output: see_gate(part, number, output)

    def batch_gate_hook(part: str, across: nn.Module):
        def hook(module, inputs, output):
            values = torch.sigmoid(output)
            see_gate(part, 1, values if across.threshold is None else values.ge(across.threshold).to(values.dtype))

        return hook

    for part, number, layer, block in declared(model):
        for name, scopes in zip(block.modules, block.scopes, strict=True):
            module = getattr(layer, name)
            if isinstance(module, Ssru):
                continue
            handles.append(module.register_forward_hook(attention_hook(part, number, scopes)))
        gate = block.residual_gate if part in CONTEXT_PARTS else block.gate
        if gate is not None and see_gate is not None:
            handles.append(getattr(layer, gate).register_forward_hook(gate_hook(part, number)))
    for part, across in across_batch(model):
        handles.append(across.attention.register_forward_hook(attention_hook(part, 1, (ByDocument(),))))
        gate = getattr(across, "gate", None)
        if gate is not None and see_gate is not None:
            handles.append(gate.register_forward_hook(batch_gate_hook(part, across)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def projections(
    module: MultiheadAttention, x: Tensor, memory: Tensor, reach: Reach
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return queries (Nq, heads, dim), keys (Nk, heads, dim) and relative positions, as exact as the parameters."""
    dtype = module.q_proj.weight.dtype
    with torch.autocast(x.device.type, enabled=False):
        q = module.project_queries(x.to(dtype), reach.queries.tag)
        k, _ = module.keys_and_values(memory.to(dtype), reach.keys.tag)
        return q, k, None if module.relative is None else module.relative.weight.to(dtype)


def per_query(
    q: Tensor, k: Tensor, pattern: Pattern, numbers: int, measure: Callable[..., Tensor], relative: Tensor | None = None
) -> Tensor:
    """Measure the attention of every query.

    Args:
        q: (Nq, heads, dim) and k: (Nk, heads, dim), packed; computed in float32, or float64 if they are.
        pattern: who sees whom, of any engine.
        numbers: how many ``measure`` returns for a query.
        measure: called as ``measure(weights, allowed, queries, keys)`` -> (segments, Lq, numbers) with a block of
            segments: weights (segments, heads, Lq, Lk), zero for invisible keys, float32 or float64; who sees whom,
            (segments, Lq, Lk) bool; and the packed tokens, (segments, Lq) and (segments, Lk) int64.
        relative: (2c + 1, dim), vectors of relative positions.

    Returns:
        (Nq, numbers), 0 for a query without a visible key.
    """
    if q.dtype != torch.float64:
        q, k = q.float(), k.float()
    reach = pattern.reach
    with torch.autocast(q.device.type, enabled=False):
        if isinstance(pattern, DensePattern):
            sides = (side.pad(torch.arange(side.total, device=q.device)) for side in (reach.queries, reach.keys))
            return reach.queries.pack(_in_blocks(q, k, reach, *sides, pattern.allowed, measure, relative))
        if not pattern.buckets:
            return q.new_zeros(len(q), numbers)
        found = []
        for bucket in pattern.buckets:
            sides = (on_device(index, q.device) for index in (bucket.queries, bucket.keys))
            found.append(_in_blocks(q, k, reach, *sides, _allowed(bucket, q.device), measure, relative).flatten(0, 1))
        # The last row is for queries that see nothing.
        return torch.cat([*found, q.new_zeros(1, numbers)]).index_select(0, pattern.gathered[-1])


def _allowed(bucket: Bucket, device: torch.device) -> Tensor:
    """Return who sees whom in a bucket of an engine, (segments, queries, keys) bool, without copies."""
    (segments, queries), keys = bucket.queries.shape, bucket.keys.shape[1]
    if bucket.causal:
        mask = torch.ones(queries, keys, dtype=torch.bool, device=device).tril()
    elif bucket.mask is not None:
        mask = bucket.mask.squeeze(1)
    else:
        mask = torch.ones(1, 1, 1, dtype=torch.bool, device=device)
    return mask.expand(segments, queries, keys)


def _in_blocks(
    q: Tensor,
    k: Tensor,
    reach: Reach,
    queries: Tensor,
    keys: Tensor,
    allowed: Tensor,
    measure: Callable[..., Tensor],
    relative: Tensor | None,
) -> Tensor:
    """Return the results of ``measure`` for segments, (segments, Lq, numbers), in blocks of at least one query."""
    rows = max(1, WEIGHTS_AT_ONCE // (q.shape[1] * keys.shape[1]))  # queries of one segment at a time
    several = max(1, rows // queries.shape[1])  # short segments at a time
    found = []
    for first in range(0, len(queries), several):
        part = slice(first, first + several)
        own, blocks = k[keys[part]], []
        for row in range(0, queries.shape[1], rows):
            here, seen, far = queries[part, row : row + rows], allowed[part, row : row + rows], None
            if relative is not None:
                far = clipped_distance(reach.queries.offset[here], reach.keys.offset[keys[part]], relative)
            weights = attention_weights(q[here], own, seen, relative, far)
            blocks.append(measure(weights, seen, here, keys[part]))
        found.append(torch.cat(blocks, dim=1))
    return torch.cat(found)
