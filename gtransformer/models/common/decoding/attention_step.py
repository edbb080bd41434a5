"""A layer for one token of every row, as it follows from the blocks that the layer declares."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.decoding.forced import Forced
from gtransformer.models.common.decoding.history import Masks
from gtransformer.models.common.decoding.input_step import Pack
from gtransformer.models.common.decoding.sights import SOURCE, Sight, names_reach, own_sight, source_sight
from gtransformer.models.common.decoding.source_window import SourceSide
from gtransformer.models.common.layer import Layer
from gtransformer.modules.attention import MultiheadAttention, side_by_side
from gtransformer.modules.combine import mixed, opened

FULL_PASS = ("forward", "attend", "feed_forward")  # of a layer; what is around them is used here as it is


def keeps(module: nn.Module, base: type, *methods: str) -> bool:
    """Whether a module has these methods as ``base`` has them."""
    return all(getattr(type(module), name) is getattr(base, name) for name in methods)


def has_caches(layer: Layer, memories: Collection[str]) -> bool:
    """Whether a step through caches does what the layer does in the full pass, with these memories by name."""
    return keeps(layer, Layer, *FULL_PASS) and all(_has_caches(layer, block, memories) for block in layer.blocks)


def _has_caches(layer: Layer, block: AttentionBlock, memories: Collection[str]) -> bool:
    if block.memory not in (None, *memories) or block.causal != (block.memory is None):
        return False
    scopes = [scope for scopes in block.scopes for scope in scopes]
    if block.memory is None:
        known = all(names_reach(scope, block.relative is not None) for scope in scopes)
    else:
        known = block.relative is None and all(type(scope) in SOURCE for scope in scopes)
    return known and all(type(module) is MultiheadAttention for module in layer.modules_of(block))


class AttentionStep:
    """One attention block: products with one input are one product, with weights laid out for few rows.

    Args:
        layer, block: the layer and one of its blocks.
        sides: memories by name.
        pack: lays out the weights of linear layers with one input, as PackedLinear.
    """

    def __init__(self, layer: Layer, block: AttentionBlock, sides: dict[str, SourceSide], pack: Pack):
        self.layer, self.block = layer, block
        self.modules = layer.modules_of(block)
        own = block.memory is None
        inputs = ("q_proj", "k_proj", "v_proj") if own else ("q_proj",)
        self.each = len(inputs)
        self.into = pack(*(getattr(module, name) for module in self.modules for name in inputs))
        self.out = [pack(module.out_proj) for module in self.modules]
        gate = layer.gate_of(block)
        self.gate = None if gate is None else pack(gate[0])
        residual_gate = layer.residual_gate_of(block)
        self.residual_gate = None
        if residual_gate is not None:
            own_proj, found_proj = pack(residual_gate.own_proj), pack(residual_gate.found_proj)
            self.residual_gate = lambda h, found: torch.sigmoid(own_proj(h) + found_proj(found))  # Eq. 22
        self.sights: list[list[Sight]] = [
            [own_sight(scope, module) if own else source_sight(scope, module, sides[block.memory]) for scope in scopes]
            for module, scopes in zip(self.modules, block.scopes, strict=True)
        ]

    def step(self, x: Tensor, masks: Masks) -> Tensor:
        """x (rows, channels), the newest token of every row, through the block."""
        return self.layer.around(self.block, x, lambda h: self.attend(h, masks), self.residual_gate)

    def attend(self, h: Tensor, masks: Masks) -> Tensor:
        """h (rows, channels) -> (rows, channels)."""
        parts = self.modules[0].split_parts(self.into(h))
        results = []
        for number, (module, sights, out) in enumerate(zip(self.modules, self.sights, self.out, strict=True)):
            q, *new = self._told(module, number, parts, masks.tags)
            q = q.unflatten(0, (-1, masks.history.beam)).transpose(1, 2)  # (groups, heads, beam, dim)
            found = [sight.attend(q, new, masks).transpose(1, 2).flatten(2).flatten(0, 1) for sight in sights]
            results.append(out(side_by_side(found)))
        if self.gate is None:
            return results[0]
        local, over_all = results
        return mixed(opened(self.gate(torch.cat(results, dim=-1))), local, over_all)  # Eq. 10

    def _told(self, module: MultiheadAttention, number: int, parts: list[Tensor], tags: np.ndarray) -> list[Tensor]:
        """Queries, and keys and values of own states, (n, heads, dim) of the block's module of this ``number``."""
        q, *new = parts[self.each * number : self.each * (number + 1)]
        new[:1] = [module.told_key(keys, tags) for keys in new[:1]]
        return [module.told_query(q, tags), *new]

    def force(self, x: Tensor, forced: Forced) -> Tensor:
        """The full pass, x (N, channels) -> (N, channels), over what all beams begin with; its keys are kept."""
        gate = self.layer.residual_gate_of(self.block)
        return self.layer.around(self.block, x, lambda h: self._attend_and_keep(h, forced), gate)

    def _attend_and_keep(self, h: Tensor, forced: Forced) -> Tensor:
        if self.block.memory is None:
            parts = self.modules[0].split_parts(self.into(h).to(forced.dtype))
            for number, (module, sights) in enumerate(zip(self.modules, self.sights, strict=True)):
                _, *new = self._told(module, number, parts, forced.layout.tag)
                for sight in sights:
                    sight.force(new, forced)
        return self.layer.attend(self.block, h, forced.view)


class LayerStep:
    """One decoder layer: its attention blocks, then feed-forward; arguments as for AttentionStep."""

    def __init__(self, layer: Layer, sides: dict[str, SourceSide], pack: Pack):
        self.layer = layer
        self.blocks = [AttentionStep(layer, block, sides, pack) for block in layer.blocks]
        self.fc1, self.fc2 = (pack(linear) for linear in (layer.fc1, layer.fc2))

    def step(self, x: Tensor, masks: Masks) -> Tensor:
        """x (rows, channels): the newest token of every row through the layer."""
        layer = self.layer
        for block in self.blocks:
            x = block.step(x, masks)
        return layer.residual(x, lambda h: self.fc2(layer.activation(self.fc1(h))), layer.final_layer_norm)

    def force(self, x: Tensor, forced: Forced) -> Tensor:
        """The full pass of the layer over what all beams begin with, (N, channels) -> (N, channels)."""
        layer = self.layer
        for block in self.blocks:
            x = block.force(x, forced)
        return layer.residual(x, layer.feed_forward, layer.final_layer_norm)

    def sights(self) -> list[Sight]:
        """All attentions of the layer."""
        return [sight for block in self.blocks for sights in block.sights for sight in sights]
