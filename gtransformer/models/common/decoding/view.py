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
    seen_by_newest,
    tags_by_document,
)
from gtransformer.models.common.decoding.plan import Plan
from gtransformer.models.common.layer import View
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.ragged import ABSENT, Memory, Ragged, on_device
from gtransformer.modules.ssru import Recurrence, Ssru


class NewestTokens:
    """One token of every hypothesis, with what ``embed_batch`` asks of a ``Ragged`` layout.

    Args:
        plan: of the step.
        doc, tag, position, within: (n,) int64, its document in the memory, sentence, position in
            document and sentence.
        batch_keys: pattern of attention to the other documents of the batch, if the decoder has it.
    """

    whole = False

    def __init__(
        self,
        plan: Plan,
        doc: np.ndarray,
        tag: np.ndarray,
        position: np.ndarray,
        within: np.ndarray,
        batch_keys=None,
    ):
        self.plan, self.batch_keys = plan, batch_keys
        self.doc, self.tag, self.position = doc, tag, position
        self.begins, self.within = np.flatnonzero(within == 0), within
        self.length = int(position.max()) + 1
        self.offset, self.within_offset, self.tags = map(plan.put, (position, within, tag))

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
        self.begin(
            SharedKeys(np.zeros(1, dtype=np.int64)), np.zeros((1, 0), dtype=np.int64), nothing
        )

    def begin(self, shared: SharedKeys, tags: np.ndarray, document: np.ndarray) -> None:
        """Set the documents that groups begin with; ``place`` sets with how many tokens of them."""
        self.shared, self.shared_tags, self.document = shared, tags, document

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
        """(hypotheses, shared + own tokens) int64, the sentence of each token; ``ABSENT`` after
        shorter shared ones.
        """
        shared = self.shared_tags[self.document]
        shared = np.where(np.arange(shared.shape[1]) < self.lengths[:, None], shared, ABSENT)
        return np.concatenate([shared.repeat(self.beam, axis=0), self.own.tags], axis=1)

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
        self._layouts: dict[str, Ragged] = {}

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
        prefixes, plan = self.prefixes, self.plan
        self.documents, tags = documents, prefixes.tags
        doc = documents.repeat(prefixes.beam)
        lengths = (prefixes.lengths + prefixes.skipped).repeat(prefixes.beam) + len(prefixes.own)
        within = (tags == tags[:, -1:]).sum(axis=1) - 1
        self.newest = NewestTokens(plan, doc, tags[:, -1], lengths - 1, within, batch_keys)
        if batch_keys is not None:
            batch_keys.advance(self.newest)
        # Hypotheses whose tokens are in the same sentences see the same: a scope is asked once for
        # all of these.
        firsts: dict[tuple[int, bytes], int] = {}
        rows = enumerate(zip(doc.tolist(), map(np.ndarray.tobytes, tags), strict=True))
        places = [firsts.setdefault(row, place) for place, row in rows]
        chosen, self.inverse = np.unique(places, return_inverse=True)
        self.layout = Ragged.of_tags(tags[chosen], plan.device)
        self.shifted = copy(self.layout)  # by what is skipped: positions in the document
        skipped = prefixes.skipped.repeat(prefixes.beam)[chosen]
        self.shifted.position = self.layout.position + skipped[self.layout.doc]
        if not np.array_equal(doc[chosen], getattr(self, "chosen_documents", None)):
            self.chosen_documents, self._layouts = doc[chosen], {}
        for pattern in self.patterns.values():
            pattern.advance()
        if self.recurrent:
            self._advance_recurrent(within)

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

    def layout_of(self, name: str) -> Ragged:
        """Return the layout of a memory's documents, one for each prefix that scopes are asked
        for.
        """
        if name not in self._layouts:
            tags = tags_by_document(self.memories[name].layout)
            self._layouts[name] = Ragged.of_tags(tags[self.chosen_documents], self.plan.device)
        return self._layouts[name]

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

    def mark_blind(self, seen: np.ndarray) -> np.ndarray:
        """Return which hypotheses see nothing of ``seen`` (hypotheses, columns); what they find is
        set to zero.
        """
        blind = ~seen.any(axis=1)
        some = bool(blind.any())
        self.plan.depends_on(some)
        self.blind = self.plan.put(blind[:, None]) if some else None
        return blind

    def attend(
        self,
        q: Tensor,
        k: MultiheadAttention,
        v: Tensor | None,
        dropout: float,
        relative: Tensor | None = None,
    ) -> Tensor:
        """See ``Pattern.attend``; k and v are those of ``project``."""
        q = by_group(q, self.beam)
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
        keys = view.layout_of(self.name)
        reach = self.scope.reach(view.shifted, keys, False)
        seen = seen_by_newest(reach, keys.position, keys.length)[view.inverse]
        seen[self.mark_blind(seen), 0] = True
        self.reading.look(shared, shared.starts[view.documents], seen)
        self.reading.gather(self.modules)

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
        shared = prefixes.shared_tags.shape[1]
        reach = self.scope.reach(layout, layout, True)
        seen = seen_by_newest(reach, layout.column, layout.length)[self.view.inverse]
        own = seen[:, shared:]
        self.readings = [self.own]
        if seen[:, :shared].any():
            self.readings = [self.reading, self.own]
            begins = prefixes.shared.starts[prefixes.document]
            self.reading.look(prefixes.shared, begins, seen[:, :shared])
            self.reading.gather(self.modules)
        first = 0 if plan.fixed else int(own.any(axis=0).argmax())
        plan.depends_on(len(self.readings), first)
        self.own.look(first, own[:, first:] | self.mark_blind(seen)[:, None])
        if self.modules[0].relative is not None:
            self.distance = plan.put(self._distances(first))

    def _distances(self, first: int) -> np.ndarray:
        """Return from the newest token to each key that is read, (groups, keys) int64."""
        prefixes = self.view.prefixes
        number, groups = len(prefixes.own), len(prefixes.lengths)
        tokens = np.arange(first, prefixes.own.end)
        columns = np.where(tokens < prefixes.own.once, 1, self.beam)
        distance = tokens.repeat(columns) - (number - 1)
        distance = np.tile(distance, (groups, 1))
        if len(self.readings) > 1:
            column = self.reading.first[:, None] + np.arange(self.reading.index.shape[1])
            outer = column - (prefixes.lengths[:, None] + number - 1)
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
        prefixes.begin(SharedKeys(self.layout.doc_starts), tags_by_document(self.layout), document)

    def pattern(self, block: AttentionBlock, scope: Scope):
        found = super().pattern(block, scope)
        if block.memory is None:
            found.stored = self.prefixes.shared.sides
        return found

    def recurrence(self, scope: Scope) -> Recurrence:
        found = super().recurrence(scope)
        found.stored = self.prefixes.forced_states
        return found
