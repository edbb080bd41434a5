"""A layer for one token of every hypothesis, built from the declared blocks of the layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.errors import UserError
from gtransformer.models.common.blocks import AttentionBlock, BySentence, Scope
from gtransformer.models.common.decoding.cached_attention import CachedAttention
from gtransformer.models.common.decoding.cached_memory import CachedMemory
from gtransformer.models.common.decoding.cached_recurrence import CachedRecurrence
from gtransformer.models.common.decoding.history import ForcedPrefixes, History, Masks
from gtransformer.models.common.layer import Layer
from gtransformer.modules.attention import Gate, MultiheadAttention, ResidualGate, make_pattern, mixed, open_gate
from gtransformer.modules.kernels import Linear, PackedLinear
from gtransformer.modules.positions import SentenceNumbers
from gtransformer.modules.ragged import Memory, Ragged, on_device
from gtransformer.modules.ssru import Ssru

Pack = Callable[..., PackedLinear]
Readers = dict[tuple[str, Scope], CachedMemory]  # by memory and scope
RECURRENT = ("forget_proj", "input_proj")  # the projections of an SSRU
FULL_PASS = ("forward", "attend", "feed_forward")  # of a layer; the rest of a layer is used here as it is


def overridden(module: nn.Module, base: type, *methods: str) -> str | None:
    """Return a text if a module does not have one of these methods as ``base`` has it; else None."""
    other = next((name for name in methods if getattr(type(module), name) is not getattr(base, name)), None)
    return None if other is None else f"{type(module).__name__} overrides {other}"


def not_plain(owner: nn.Module, *names: str) -> str | None:
    """Return a text if one of these modules is more than a product with its weight, plus bias; else None."""
    kinds = {name: type(owner.get_submodule(name)) for name in names}
    plain = nn.Linear.forward, Linear.forward
    return next((f"{name} is a {kind.__name__}" for name, kind in kinds.items() if kind.forward not in plain), None)


def hooked(module: nn.Module) -> str | None:
    """Return a text if calling a module, or one in it, does more than its class does; else None."""
    for name, one in module.named_modules():
        if one._forward_hooks or one._forward_pre_hooks or "forward" in vars(one):
            return f"{name or type(one).__name__} has a forward hook or a forward of its own"
    return None


def why_uncached(layer: Layer, memories: Collection[str]) -> str | None:
    """Return why a step through caches differs from the layer's full pass; None: it does not.

    ``memories``: the names of those that the encoder provides.
    """
    return (
        overridden(layer, Layer, *FULL_PASS)
        or hooked(layer)
        or not_plain(layer, "fc1", "fc2")
        or next((f"{block.name}: {reason}" for block in layer.blocks if (reason := _why(layer, block, memories))), None)
    )


def _why(layer: Layer, block: AttentionBlock, memories: Collection[str]) -> str | None:
    if block.memory not in (None, *memories):
        return f"the encoder gives no memory {block.memory}"
    if block.causal != (block.memory is None):
        return "decoding writes its sentences one token at a time, which self-attention alone must follow (causal)"
    for module, scopes in zip(layer.modules_of(block), block.scopes, strict=True):
        if type(module) is Ssru:
            if reason := not_plain(module, "forget_proj", "input_proj"):
                return reason
            continue
        if type(module) is not MultiheadAttention:
            return f"{type(module).__name__} is attention of another kind"
        if reason := not_plain(module, "q_proj", "k_proj", "v_proj", "out_proj"):
            return reason
        for scope in scopes:
            if block.memory is None and scope.cached_prefix(_relative(module)) is None:
                what = "prefix_sentences or prefix_tokens" if block.relative is None else "prefix_tokens"
                return f"scope {scope.name} ({type(scope).__name__}) declares no {what}"
            if block.memory is not None and (scope.cached_memory is None or block.relative is not None):
                return f"scope {scope.name} ({type(scope).__name__}) declares no cached_memory" + (
                    "" if block.relative is None else " for relative positions"
                )
    gates = (layer.gate_of(block), Gate, "0"), (layer.residual_gate_of(block), ResidualGate, "own_proj", "found_proj")
    for gate, base, *names in gates:
        if gate is not None and (reason := overridden(gate, base, "forward") or not_plain(gate, *names)):
            return reason
    return None


def _relative(module: MultiheadAttention) -> Tensor | None:
    return None if module.relative is None else module.relative.weight.detach()


class AttentionStep:
    """One attention block: products with one input are one product, with weights packed for few rows.

    Args:
        layer, block: the layer and one of its blocks.
        readers: cached memories.
        pack: packs the weights of linear layers with one input, as PackedLinear.
    """

    def __init__(self, layer: Layer, block: AttentionBlock, readers: Readers, pack: Pack):
        self.layer, self.block = layer, block
        self.modules, self.norm = layer.modules_of(block), layer.norm_of(block)
        inputs = ("q_proj", "k_proj", "v_proj") if block.memory is None else ("q_proj",)
        self.inputs = [RECURRENT if isinstance(module, Ssru) else inputs for module in self.modules]
        each = zip(self.modules, self.inputs, strict=True)
        self.into = pack(*(getattr(module, name) for module, names in each for name in names))
        self.out = [None if isinstance(module, Ssru) else pack(module.out_proj) for module in self.modules]
        gate = layer.gate_of(block)
        self.gate = None if gate is None else pack(gate[0])
        residual_gate = layer.residual_gate_of(block)
        self.residual_gate = None
        if residual_gate is not None:
            own_proj, found_proj = pack(residual_gate.own_proj), pack(residual_gate.found_proj)
            self.residual_gate = lambda h, found: torch.sigmoid(own_proj(h) + found_proj(found))  # Eq. 22
        self.embedded: dict[SentenceNumbers, Tensor] = {}
        self.attentions: list[list[CachedAttention]] = [
            [
                CachedRecurrence(scope == BySentence())
                if isinstance(module, Ssru)
                else scope.cached_prefix(_relative(module))
                if block.memory is None
                else readers[block.memory, scope].attention(module)
                for scope in scopes
            ]
            for module, scopes in zip(self.modules, block.scopes, strict=True)
        ]

    def step(self, x: Tensor, masks: Masks) -> Tensor:
        """Apply the block to x (rows, channels), the newest tokens; a row stands for ``masks.repeats`` hypotheses."""
        return self.layer.residual(x, lambda h: self._attend(h, masks), self.norm, self.residual_gate)

    def _attend(self, h: Tensor, masks: Masks) -> Tensor:
        parts = self._parts(h)
        results = []
        for module, attentions, out, own in zip(self.modules, self.attentions, self.out, parts, strict=True):
            own = list(map(masks.expand, own))
            if isinstance(module, Ssru):
                state = attentions[0].advance(*module.parts(*own), masks.history)
                results.append(module.output(masks.reduce(state), h.dtype))
                continue
            q, *new = self._numbered(module, own, masks.tags)
            q = q.unflatten(0, (-1, masks.history.beam)).transpose(1, 2)  # (documents, heads, beam, dim)
            found = [one.attend(q, new, masks).transpose(1, 2).flatten(2).flatten(0, 1) for one in attentions]
            found = list(map(masks.reduce, found))
            results.append(out(found[0] if len(found) == 1 else torch.cat(found, dim=-1)))
        if self.gate is None:
            return results[0]
        return mixed(open_gate(self.gate(torch.cat(results, dim=-1))), *results)  # Eq. 10

    def _parts(self, h: Tensor) -> list[list[Tensor]]:
        """Return the outputs of the projections of each module, (n, channels) each."""
        parts = iter(self.into(h).split(h.shape[-1], dim=-1))
        return [[next(parts) for _ in names] for names in self.inputs]

    def _numbered(self, module: MultiheadAttention, own: list[Tensor], tags: np.ndarray) -> list[Tensor]:
        """Return queries, and own keys and values, (n, heads, dim), from the outputs of a module's projections."""
        q, *new = map(module.split, own)
        if module.query_numbers is None:
            return [q, *new]
        index = on_device(tags, q.device)
        q = q + self._embedded(module, module.query_numbers, tags).index_select(0, index)
        new[:1] = [keys + self._embedded(module, module.key_numbers, tags).index_select(0, index) for keys in new[:1]]
        return [q, *new]

    def _embedded(self, module: MultiheadAttention, numbers: SentenceNumbers, tags: np.ndarray) -> Tensor:
        """Return the embedded sentence numbers from 0 to at least the largest tag, (numbers, heads, dim), held."""
        most, held = int(tags.max(initial=0)), self.embedded.get(numbers)
        if held is None or len(held) <= most:
            weight = numbers.map.weight
            every = torch.arange(2 * most + 8, device=weight.device)
            held = self.embedded[numbers] = module.split(numbers(every, weight.dtype))
        return held

    def force(self, x: Tensor, forced_prefixes: ForcedPrefixes) -> Tensor:
        """Apply the full pass, x (N, channels) -> (N, channels), to the forced prefixes; hold its keys."""
        gate = self.layer.residual_gate_of(self.block)
        return self.layer.residual(x, lambda h: self._attend_and_keep(h, forced_prefixes), self.norm, gate)

    def hold(self, x: Tensor, forced_prefixes: ForcedPrefixes) -> None:
        """Hold the keys of the forced prefixes as ``force`` does, without a result."""

        def keep(h: Tensor) -> Tensor:
            self._keep(h, forced_prefixes)
            return h

        self.layer.residual(x, keep, self.norm)

    def _attend_and_keep(self, h: Tensor, forced_prefixes: ForcedPrefixes) -> Tensor:
        if self.block.memory is None:
            self._keep(h, forced_prefixes)
        return self.layer.attend(self.block, h, forced_prefixes.view)

    def _keep(self, h: Tensor, forced_prefixes: ForcedPrefixes) -> None:
        parts = self._parts(h)
        for module, attentions, own in zip(self.modules, self.attentions, parts, strict=True):
            if isinstance(module, Ssru):
                first, longest = forced_prefixes.view.segments(self.block.scopes[0][0])
                forced_prefixes.held.append((attentions[0], [module.states(h, first, longest)]))
                continue
            own = [part.to(forced_prefixes.dtype) for part in own]
            _, *new = self._numbered(module, own, forced_prefixes.layout.tag)
            forced_prefixes.held += [(one, new) for one in attentions]


class LayerStep:
    """One decoder layer: its attention blocks, then feed-forward; arguments as for AttentionStep."""

    def __init__(self, layer: Layer, readers: Readers, pack: Pack):
        self.layer = layer
        self.blocks = [AttentionStep(layer, block, readers, pack) for block in layer.blocks]
        self.fc1, self.fc2 = (pack(linear) for linear in (layer.fc1, layer.fc2))

    def step(self, x: Tensor, masks: Masks) -> Tensor:
        """Apply the layer to x (rows, channels), the newest tokens; a row stands for ``masks.repeats`` hypotheses."""
        layer = self.layer
        for block in self.blocks:
            x = block.step(x, masks)
        return layer.residual(x, lambda h: self.fc2(layer.activation(self.fc1(h))), layer.final_layer_norm)

    def force(self, x: Tensor, forced_prefixes: ForcedPrefixes) -> Tensor:
        """Apply the layer's full pass to the forced prefixes, (N, channels) -> (N, channels)."""
        layer = self.layer
        for block in self.blocks:
            x = block.force(x, forced_prefixes)
        return layer.residual(x, layer.feed_forward, layer.final_layer_norm)

    def hold(self, x: Tensor, forced_prefixes: ForcedPrefixes) -> None:
        """Hold the keys of the forced prefixes as ``force`` does, without a result."""
        own = [number for number, block in enumerate(self.blocks) if block.block.memory is None]
        for block in self.blocks[: own[-1]] if own else []:
            x = block.force(x, forced_prefixes)
        if own:
            self.blocks[own[-1]].hold(x, forced_prefixes)


def history_of(scopes: Collection[Scope], groups: int, beam: int, restarts: bool = False) -> History:
    """Return the history that self-attention with these scopes needs; ``restarts``: with positions in the sentence."""
    sentences = {scope.prefix_sentences for scope in scopes} - {None}
    tokens = {scope.prefix_tokens for scope in scopes} - {None}
    numbers = sorted(sentences - {math.inf}) or [1] * restarts
    return History(groups, beam, numbers, math.inf in sentences, sorted(tokens))


def check_declared(scope: Scope, memory: bool) -> None:
    """Raise UserError if a scope's cached attention sees other keys than its reach.

    A wrong declaration would change translations, but not training, and silently. So it is tested on the second of two
    documents, with more sentences and tokens than declared. ``memory``: the scope attends to a memory, not to
    the prefix.
    """
    declared = (scope.cached_memory,) if memory else (scope.prefix_sentences, scope.prefix_tokens)
    if any(one is not None for one in declared) and not _agrees(scope, memory, declared):
        names = ("cached_memory",) if memory else ("prefix_sentences", "prefix_tokens")
        given = zip(names, declared, strict=True)
        used = ", ".join(f"{name} = {getattr(one, '__name__', one)}" for name, one in given if one is not None)
        raise UserError(
            f"scope {scope.name} ({type(scope).__name__}): decoding by {used} sees other keys than its reach; "
            "correct the declaration, or leave it out: decoding then recomputes the whole prefix"
        )


def _layout(*documents: Sequence[int]) -> Ragged:
    """Return a layout of documents whose tokens have these tags."""
    tags = torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in documents], batch_first=True)
    return Ragged(tags.ne(0), tags)


@cache
@torch.no_grad()
def _agrees(scope: Scope, memory: bool, declared: tuple) -> bool:
    numbers = [one for one in declared if isinstance(one, int)]
    most = max(numbers, default=1)
    if min(numbers, default=1) < 1:  # a token always sees its own sentence, or itself
        return False
    tags = np.repeat(np.arange(most + 7) + 1, np.resize([2, 1, 3, 2], most + 7))
    queries = _layout([1, 1, 2], tags)
    queries.whole = False
    source = np.repeat([1, 2, 4, 5, 6], [3, 1, 2, 2, 3])  # one is missing
    keys = _layout([1, 2], source) if memory else queries
    with torch.random.fork_rng(devices=[]):  # the check must not change the random numbers of model building
        torch.manual_seed(1)
        module = MultiheadAttention(4, 1).double()
        x, states = (torch.randn(side.total, 4, dtype=torch.float64) for side in (queries, keys))
    states = states if memory else x
    q, k, v = module.queries(x, queries), module.keys(states, keys), module.split(module.v_proj(states))
    wanted = make_pattern("dense", scope.reach(queries, keys, not memory)).attend(q, k, v, 0.0)
    history = history_of([] if memory else [scope], 1, 1)
    reader = scope.cached_memory(scope, Memory(states, keys), np.ones(1, dtype=np.int64), 1) if memory else None
    attention = reader.attention(module) if memory else scope.cached_prefix(None)
    begin = queries.doc_starts[1]
    for position, tag in enumerate(tags):
        opens = np.array([[position == 0 or tag != tags[position - 1]]])
        history.advance(opens)
        if memory:
            reader.advance(opens, np.array([[tag]]), np.array([position]))
        masks = Masks(history, np.array([tag]), queries.device, q.dtype)
        at = begin + position
        new = [] if memory else [k[at : at + 1], v[at : at + 1]]
        found = attention.attend(q[at].view(1, 1, 1, 4), new, masks).flatten()
        if not torch.allclose(found, wanted[at], atol=1e-9):
            return False
    return True
