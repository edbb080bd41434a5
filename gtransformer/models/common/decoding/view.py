"""What layers see of the prefixes and memories while decoding: the place of ``layer.View`` at a
step, or in a full pass that fills the caches.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.models.common.blocks import AttentionBlock, BySentence, Scope
from gtransformer.models.common.decoding.caches import (
    OwnKeys,
    OwnReading,
    SharedKeys,
    SharedReading,
    attended,
    by_group,
    by_hypothesis,
)
from gtransformer.models.common.decoding.plan import Plan
from gtransformer.models.common.layer import View
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.ragged import ABSENT, Memory, Ragged, on_device
from gtransformer.modules.ssru import Recurrence, Ssru


class NewestTokens:
    """One token of every hypothesis, with what scopes and ``embed_batch`` ask of a ``Ragged``
    layout.

    Args:
        doc, tag, position, within: (n,) int64, its document in the keys, sentence, position in
            document and sentence.
        batch_keys: pattern of attention to the other documents of the batch, if the decoder has it.
    """

    whole = False

    def __init__(
        self,
        doc: np.ndarray,
        tag: np.ndarray,
        position: np.ndarray,
        within: np.ndarray,
        batch_keys=None,
    ):
        self.batch_keys = batch_keys
        self.doc, self.tag, self.position, self.within = doc, tag, position, within
        self.sentence, self.length = (doc << 32) + tag, int(position.max()) + 1

    def put(self, plan: Plan) -> NewestTokens:
        """Put what the device needs into a plan."""
        self.plan, arrays = plan, (self.position, self.within, self.tag)
        self.offset, self.within_offset, self.tags = map(plan.put, arrays)
        return self

    def positions(self, restarts: bool) -> tuple[Tensor, int]:
        """See ``Ragged.positions``."""
        if restarts:
            return self.within_offset, int(self.within.max()) + 1
        return self.offset, self.length

    def pack(self, tokens: Tensor) -> Tensor:
        """Return tokens (n, 1) as (n,)."""
        return tokens.flatten()


class Prefixes:
    """What hypotheses have read: for each group tokens that its hypotheses share, then the tokens
    of each hypothesis.

    Attributes:
        own: the tokens of each hypothesis.
        shared: keys and values of documents that groups begin with; shared_tags (documents,
            longest) int64.
        document: (groups,) int64, which of these each group begins with; lengths (groups,) int64:
            with how many tokens.
        skipped: (groups,) int64, how many tokens of its document precede what a group has read.
        states: by recurrent module the newest state of every hypothesis, (hypotheses, channels);
            forced_states: those of all shared tokens, before the first step.
        order: (hypotheses,) int64, which of these states each hypothesis continues.
    """

    def __init__(self, own: OwnKeys, groups: int):
        self.own, self.plan, self.beam = own, own.plan, own.beam
        self.skipped = self.lengths = nothing = np.zeros(groups, dtype=np.int64)
        self.states: dict[Ssru, Tensor] = {}
        self.forced_states: dict[Ssru, Tensor] = {}
        self.order = np.arange(groups * self.beam)
        self.document, self.shared_tags = nothing, np.zeros((1, 0), dtype=np.int64)
        self.shared = SharedKeys(np.zeros(1, dtype=np.int64))

    def place(self, lengths: np.ndarray) -> None:
        """Let each group begin with so many tokens, (groups,) int64, of its document."""
        self.lengths = lengths
        ends = (self.shared.starts[self.document] + lengths - 1).repeat(self.beam)
        ends, nothing = (
            on_device(one, self.plan.device)
            for one in (ends.clip(min=0), (lengths == 0).repeat(self.beam)[:, None])
        )
        self.order = np.arange(len(ends))
        for module, states in self.forced_states.items():
            begun = states.index_select(0, ends).masked_fill(nothing, 0.0)
            self.states[module] = self.plan.tensor(module, begun.shape, begun.dtype).copy_(begun)

    @property
    def tags(self) -> np.ndarray:
        """(kinds, shared + own tokens) int64, the sentence of each token; ``ABSENT`` after shorter
        shared ones.
        """
        group = self.own.groups
        shared = self.shared_tags[self.document[group]]
        shared = np.where(np.arange(shared.shape[1]) < self.lengths[group, None], shared, ABSENT)
        return np.concatenate([shared, self.own.tags], axis=1)

    def reorder(self, order: np.ndarray, groups: np.ndarray) -> None:
        """Continue hypothesis ``order[i]`` as hypothesis i; these are of the old groups
        ``groups``.
        """
        self.own.reorder(order, groups)
        self.document, self.lengths, self.skipped = (
            self.document[groups],
            self.lengths[groups],
            self.skipped[groups],
        )
        self.order = self.order[order]


class StepView:
    """The view of one token of every hypothesis.

    Args:
        plan: of the steps.
        groups, beam: how many groups hypotheses form, and how many are in each.
        memories: by name.
        layers: of the decoder.
        dtype: of what is stored.
    """

    def __init__(
        self,
        plan: Plan,
        groups: int,
        beam: int,
        memories: dict[str, Memory],
        layers: nn.ModuleList,
        dtype: torch.dtype,
    ):
        self.plan, self.memories = plan, memories
        self.shared = {
            name: SharedKeys(memory.layout.doc_starts) for name, memory in memories.items()
        }
        self.recurrent: list[Ssru] = []
        own = OwnKeys(plan, groups, beam, dtype)
        self.prefixes = Prefixes(own, groups)
        self.patterns: dict[tuple, PrefixPattern | MemoryPattern] = {}
        for layer in layers:
            for block in layer.blocks:
                for name, scopes in zip(block.modules, block.scopes, strict=True):
                    self._add(block, getattr(layer, name), scopes)

    def _add(self, block: AttentionBlock, module: nn.Module, scopes: Iterable[Scope]) -> None:
        if isinstance(module, Ssru):
            self.recurrent.append(module)
            return
        if block.memory is None:
            self.prefixes.own.sides[module] = None
        for scope in scopes:
            key = block.memory, scope
            if key not in self.patterns:
                kind = PrefixPattern if block.memory is None else MemoryPattern
                self.patterns[key] = kind(self, scope, block.memory)
            self.patterns[key].modules.append(module)

    def advance(self, documents: np.ndarray, batch_keys) -> None:
        """Plan for the newest token of every hypothesis; ``documents`` (groups,) int64, the
        memory's document of each.
        """
        own, tags = self.prefixes.own, self.prefixes.tags
        self.documents, self.skipped = documents, self.prefixes.skipped[own.groups]
        self.layout = Ragged.of_tags(tags, self.plan.device)
        position = self.layout.doc_lengths - 1
        within = (tags == tags[:, -1:]).sum(axis=1) - 1
        # Hypotheses of a kind see the same of their prefixes.
        self.queries = NewestTokens(np.arange(len(tags)), tags[:, -1], position, within)
        newest = documents[own.groups], tags[:, -1], position + self.skipped, within
        self.newest = NewestTokens(*(one[own.kinds] for one in newest), batch_keys).put(self.plan)
        self.newest.history = self._history
        if batch_keys is not None:
            batch_keys.advance(self.newest)
        for pattern in self.patterns.values():
            pattern.advance()
        if self.recurrent:
            self._advance_recurrent(self.newest.within)

    def _history(self) -> tuple[Ragged, np.ndarray]:
        """See ``Ragged.history``."""
        layout, own = self.layout, self.prefixes.own
        tokens, tokens.sentence = copy(layout), layout.sentence
        tokens.position = layout.position + self.skipped[layout.doc]
        tokens.doc = self.documents[own.groups[layout.doc]]
        return tokens, (layout.doc_starts[1:] - 1)[own.kinds]

    def _advance_recurrent(self, within: np.ndarray) -> None:
        prefixes = self.prefixes
        self.order, self.begun = map(self.plan.put, (prefixes.order, (within == 0)[:, None]))
        prefixes.order = np.arange(len(within))
        for module in self.recurrent:
            if module not in prefixes.states:
                shape = len(within), module.forget_proj.out_features
                dtype = torch.promote_types(prefixes.own.dtype, torch.float32)
                prefixes.states[module] = self.plan.tensor(module, shape, dtype).zero_()
            self.plan.depends_on(len(prefixes.states[module]))  # those before documents left

    def prepare(self) -> None:
        """Compute on the device what all layers need."""
        for pattern in self.patterns.values():
            for reading in pattern.readings:
                reading.prepare()

    def pattern(self, block: AttentionBlock, scope: Scope) -> PrefixPattern | MemoryPattern:
        """See ``View.pattern``."""
        return self.patterns[block.memory, scope]

    def recurrence(self, scope: Scope) -> StepView:
        """See ``View.recurrence``; units over documents alone keep states between sentences."""
        self.restarts = scope == BySentence()
        return self

    def states(self, module: Ssru, forget: Tensor, new: Tensor) -> Tensor:
        """Return c = f * c + new of the newest tokens, (hypotheses, channels), and keep it."""
        states = self.prefixes.states[module]
        before = states.index_select(0, self.order)
        if self.restarts:
            before = before.masked_fill(self.begun, 0.0)
        return states[: len(new)].copy_(forget * before + new)


class StepPattern:
    """A scope's pattern of the newest tokens (``modules.attention.Pattern``).

    Args:
        view: of the steps.
        scope: the rule.
        name: of the memory that it is for; None: the prefixes.

    Attributes:
        modules: that attend by it.
        readings: how keys are read.
        blind: (hypotheses, 1) bool, those that see nothing; None: all see something.
    """

    def __init__(self, view: StepView, scope: Scope, name: str | None):
        self.view, self.scope, self.name = view, scope, name
        self.plan, own = view.plan, view.prefixes.own
        self.modules: list[MultiheadAttention] = []
        self.reading = SharedReading(self.plan, (name, scope), own.beam, own.dtype)
        self.beam, self.readings = own.beam, [self.reading]
        self.blind: Tensor | None = None

    def attend(
        self,
        q: Tensor,
        k: MultiheadAttention,
        v: Tensor | None,
        dropout: float,
        relative: Tensor | None = None,
    ) -> Tensor:
        """See ``Pattern.attend``; k and v are those of ``project``."""
        q = by_group(q.to(self.reading.dtype), self.beam)
        if relative is not None:
            relative = self.relative_scores(q, relative)
        found = by_hypothesis(attended(q, self.parts(k, v), relative)).flatten(1)
        return found if self.blind is None else found.masked_fill(self.blind, 0.0)


class MemoryPattern(StepPattern):
    """A pattern of the newest tokens over a memory."""

    def advance(self) -> None:
        """Ask the scope what the newest tokens see."""
        view, memory, shared = self.view, self.view.memories[self.name], self.view.shared[self.name]
        for module in self.modules:
            if module not in shared.sides:
                sides = module.keys_and_values(memory.states, memory.layout.tag)
                shared.sides[module] = torch.stack(sides).to(self.reading.dtype)
        reach = self.scope.reach(view.newest, memory.layout, False)
        blind = reach.last <= reach.first
        # These see one key, and what they find is set to zero.
        self.reading.look(shared, reach.first, reach.last + blind, self.modules)
        self.blind = self.plan.put(blind[:, None]) if blind.any() else None
        self.plan.depends_on(self.blind is None)

    def project(self, module: MultiheadAttention, x: Tensor, memory: Tensor) -> tuple:
        """Return queries, and the module, whose keys and values are projected once."""
        return module.project_queries(x, self.view.newest.tags), module, None

    def parts(self, module: MultiheadAttention, own: None) -> list:
        """Return what ``attended`` reads."""
        return [(self.reading, *self.reading.gathered[module])]


class PrefixPattern(StepPattern):
    """A pattern of the newest tokens over the prefixes.

    Attributes:
        own: how own tokens are read.
    """

    def __init__(self, *given):
        super().__init__(*given)
        self.own = OwnReading(self.view.prefixes.own)

    def advance(self) -> None:
        """Ask the scope what the newest tokens see."""
        prefixes, plan, layout = self.view.prefixes, self.plan, self.view.layout
        reach = self.scope.reach(self.view.queries, layout, True)
        if (reach.last != layout.doc_starts[1:]).any():
            raise ValueError("self-attention of a decoder ends with the query itself")
        # From where on each hypothesis sees its prefix.
        begin = (reach.first - layout.doc_starts[:-1])[prefixes.own.kinds]
        lengths = prefixes.lengths.repeat(self.beam)
        self.readings = [self.own]
        if (begin < lengths).any():
            self.readings = [self.reading, self.own]
            starts = prefixes.shared.starts[prefixes.document].repeat(self.beam)
            first, last = starts + np.minimum(begin, lengths), starts + lengths
            self.reading.look(prefixes.shared, first, last, self.modules)
        plan.depends_on(len(self.readings))
        self.own.look((begin - lengths).clip(min=0))
        if self.modules[0].relative is not None:
            self.distance = plan.put(self._distances())

    def _distances(self) -> np.ndarray:
        """Return from the newest token to each key that is read, (groups, keys) int64."""
        prefixes = self.view.prefixes
        number, groups = len(prefixes.own), len(prefixes.lengths)
        tokens = np.arange(self.own.first, self.own.end)
        columns = np.where(tokens < prefixes.own.once, 1, self.beam)
        distance = tokens.repeat(columns) - (number - 1)
        distance = np.tile(distance, (groups, 1))
        if len(self.readings) > 1:
            ends = prefixes.shared.starts[prefixes.document] + prefixes.lengths + number - 1
            outer = (self.reading.begins - ends)[:, None] + np.arange(self.reading.index.shape[1])
            distance = np.concatenate([outer, distance], axis=1)
        return distance

    def project(self, module: MultiheadAttention, x: Tensor, memory: Tensor) -> tuple:
        """Store keys and values of the newest tokens; return queries, the module, and keys and
        values of all own tokens.
        """
        tags = self.view.newest.tags
        q, k, v = module.project(x, memory, tags, tags)
        return q, module, self.view.prefixes.own.append(module, k, v)

    def parts(self, module: MultiheadAttention, own: Tensor) -> list:
        """Return what ``attended`` reads."""
        shared = [(one, *one.gathered[module]) for one in self.readings[:-1]]
        return [*shared, self.own.part(own)]

    def relative_scores(self, q: Tensor, table: Tensor) -> Tensor:
        """Return the scores of relative positions of all keys that are read, (groups, heads, beam,
        keys).
        """
        clip = len(table) // 2
        rows = (self.distance.clamp(-clip, clip) + clip)[:, None, None]
        scores = torch.matmul(q * q.shape[-1] ** -0.5, table.to(q.dtype).t())
        return scores.gather(3, rows.expand(-1, *q.shape[1:3], -1))


class FillingView(View):
    """The view of a full pass over what hypotheses begin with, which stores keys, values and
    states.

    Args:
        prefixes: of the hypotheses.
        document: (groups,) int64, which document of the layout each group begins with.
    """

    def __init__(self, prefixes: Prefixes, document: np.ndarray, *given):
        super().__init__(*given)
        self.prefixes = prefixes
        prefixes.document, prefixes.shared_tags = document, self.layout.tags
        prefixes.shared = SharedKeys(self.layout.doc_starts)

    def pattern(self, block: AttentionBlock, scope: Scope):
        found = super().pattern(block, scope)
        if block.memory is None:
            found.stored = self.prefixes.shared.sides
        return found

    def recurrence(self, scope: Scope) -> Recurrence:
        found = super().recurrence(scope)
        found.stored = self.prefixes.forced_states
        return found
