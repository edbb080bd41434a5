"""Being told of every attention while a model runs, whatever it runs for; the model goes on as it is.

What a model must offer: an encoder or a decoder whose ``layers`` declare ``blocks`` of attention
(``models.common.blocks.AttentionBlock``) and give their modules (``modules_of``, ``gate_of`` of
``models.common.layer.Layer``). Others cannot be watched; ``can_be_watched`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gtransformer.models.common.blocks import AttentionBlock, ByDocument, Scope
from gtransformer.models.common.layer import Layer

PARTS = ("encoder", "decoder", "cross")  # self-attention of encoder and decoder, and the decoder's to the source
# Self-attention of an encoder of the context, and what encoder and decoder find there.
CONTEXT_PARTS = ("context", "encoder_context", "decoder_context")
# Across the instances of a batch, in front of the first layer of encoder and decoder: a single one, counted as layer 1.
BATCH_PARTS = ("encoder_batch", "decoder_batch")


@dataclass(frozen=True)
class AttentionSite:
    """Which attention of a model: part, reach (the scope's name, "group" or "global"), layer from 1.

    The part is one of PARTS, CONTEXT_PARTS and BATCH_PARTS, or names the side and another memory that it attends to.
    """

    part: str
    reach: str
    layer: int


def declared(model: nn.Module) -> Iterator[tuple[str, int, Layer, AttentionBlock]]:
    """Part, number from 1, layer and block of all attention that a model declares, lowest layer first."""
    encoder = getattr(model, "encoder", None)
    beside = getattr(encoder, "context_encoder", None)
    for side, stack in (("encoder", encoder), ("context", beside), ("decoder", getattr(model, "decoder", None))):
        for number, layer in enumerate(getattr(stack, "layers", ()), 1):
            for block in getattr(layer, "blocks", ()):
                other = "cross" if block.memory == "source" else f"{side}_{block.memory}"
                part = side if block.memory is None else other
                yield part, number, layer, block


def across_batch(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Part and module (with its ``attention``) of what attends across the instances of a batch."""
    for part in BATCH_PARTS:
        front = getattr(getattr(model, part.removesuffix("_batch"), None), "batch_front", None)
        if front is not None and front.across is not None:
            yield part, front.across


def can_be_watched(model: nn.Module) -> bool:
    """Whether any layer of the model declares its attention."""
    return next(declared(model), None) is not None


@contextmanager
def watching(
    model: nn.Module, see: Callable[..., None], see_gate: Callable[[str, int, Tensor], None] | None = None
) -> Iterator[None]:
    """Call these while the model runs.

    Args:
        see: called as ``see(place, module, x, memory, pattern)`` with what an attention module was given, once for
            each of its scopes: states of queries (Nq, channels) and keys (Nk, channels), and the engine's pattern.
        see_gate: called with part, layer and the values (Nq, channels) of every gate of Eq. 10 (Bao et al. 2021), and
            of Eq. 22 (Zhang et al. 2018) around attention to another memory than the source, and of Eq. 8 and 9 (Wu
            et al. 2023) behind attention across a batch.
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
        for module, scopes in zip(layer.modules_of(block), block.scopes, strict=True):
            handles.append(module.register_forward_hook(attention_hook(part, number, scopes)))
        gate = layer.residual_gate_of(block) if part in CONTEXT_PARTS else layer.gate_of(block)
        if gate is not None and see_gate is not None:
            handles.append(gate.register_forward_hook(gate_hook(part, number)))
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
