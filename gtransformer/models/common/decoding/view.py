"""What layers see of the prefixes and memories while decoding: the place of ``layer.View`` at a
step, or in a full pass that fills the caches.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.models.common.blocks import AttentionBlock, BySentence, Scope
from gtransformer.models.common.decoding.caches import (
    OwnKeys,
    SharedKeys,
    SharedReading,
    attention_weights,
    by_group,
    by_hypothesis,
    scaled,
    scores_of,
    seen_by_newest,
    tags_by_document,
)
from gtransformer.models.common.layer import View
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.ragged import ABSENT, Memory, Ragged, on_device
from gtransformer.modules.ssru import Recurrence, Ssru


class NewestTokens:
    """One token of every hypothesis, with what ``embed_batch`` asks of a ``Ragged`` layout.

    Args:
        doc, tag, position, within: (n,) int64, its document in the memory, sentence, position in
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
        device,
        batch_keys=None,
    ):
        self.doc, self.tag, self.position, self.within = doc, tag, position, within
        self.device, self.batch_keys = device, batch_keys
        self.total, self.doc_lengths, self.begins = (
            len(doc),
            position + 1,
            np.flatnonzero(within == 0),
        )
        self.length = int(self.doc_lengths.max(initial=0))

    @cached_property
    def offset(self) -> Tensor:
        """``position`` on the device."""
        return on_device(self.position, self.device)

    def pack(self, tokens: Tensor) -> Tensor:
        """Return tokens (n, 1) as (n,)."""
        return tokens.flatten()


class Prefixes:
    """What hypotheses have read: for each group tokens that its hypotheses share, then the tokens
    of each hypothesis.

    Attributes:
        shared: keys and values of documents that groups begin with; shared_tags (documents,
            longest) int64.
        document: (groups,) int64, which of these each group begins with; lengths (groups,) int64:
            with how many tokens.
        skipped: (groups,) int64, how many tokens of its document precede what a group has read.
        states: by recurrent module the newest state of every hypothesis, (hypotheses, channels);
            forced_states: those of all shared tokens, before the first step.
    """

    def __init__(self, groups: int, beam: int, device: torch.device, dtype: torch.dtype):
        self.beam, self.device, self.dtype = beam, device, dtype
        self.own = OwnKeys(groups, beam, device)
        self.skipped = np.zeros(groups, dtype=np.int64)
        self.states: dict[Ssru, Tensor] = {}
        self.forced_states: dict[Ssru, Tensor] = {}
        nothing = np.zeros(groups, dtype=np.int64)
        self.begin(
            SharedKeys(np.zeros(1, dtype=np.int64)), np.zeros((1, 0), dtype=np.int64), nothing
        )
        self.lengths = nothing

    def begin(self, shared: SharedKeys, tags: np.ndarray, document: np.ndarray) -> None:
        """Set the documents that groups begin with; ``place`` sets with how many tokens of them."""
        self.shared, self.shared_tags, self.document = shared, tags, document

    def place(self, lengths: np.ndarray) -> None:
        """Let each group begin with so many tokens, (groups,) int64, of its document."""
        self.lengths = lengths
        ends = on_device(
            (self.shared.starts[self.document] + lengths - 1).repeat(self.beam), self.device
        )
        nothing = on_device((lengths == 0).repeat(self.beam), self.device).unsqueeze(1)
        for module, states in self.forced_states.items():
            self.states[module] = states.index_select(0, ends.clamp(min=0)).masked_fill(
                nothing, 0.0
            )

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
        index = on_device(order, self.device)
        self.states = {
            module: state.index_select(0, index) for module, state in self.states.items()
        }


class StepView:
    """The view of one token of every hypothesis; patterns are made when a block asks for them
    first.

    Args:
        prefixes: what the hypotheses have read.
        memories: by name.
    """

    def __init__(self, prefixes: Prefixes, memories: dict[str, Memory]):
        self.prefixes, self.memories = prefixes, memories
        self.shared = {
            name: SharedKeys(memory.layout.doc_starts) for name, memory in memories.items()
        }
        self.patterns: dict[tuple, PrefixPattern | MemoryPattern] = {}
        self._layouts: dict[str, Ragged] = {}

    def advance(self, documents: np.ndarray, batch_keys) -> None:
        """Go to the newest token of every hypothesis; ``documents`` (groups,) int64, the memory's
        document of each.
        """
        prefixes = self.prefixes
        self.documents, tags = documents, prefixes.tags
        doc = documents.repeat(prefixes.beam)
        lengths = (prefixes.lengths + prefixes.skipped).repeat(prefixes.beam) + len(prefixes.own)
        within = (tags == tags[:, -1:]).sum(axis=1) - 1
        self.newest = NewestTokens(
            doc, tags[:, -1], lengths - 1, within, prefixes.device, batch_keys
        )
        if batch_keys is not None:
            batch_keys.advance(self.newest)
        # Hypotheses whose tokens are in the same sentences see the same: a scope is asked once for
        # all of these.
        firsts: dict[tuple[int, bytes], int] = {}
        rows = enumerate(zip(doc.tolist(), map(np.ndarray.tobytes, tags), strict=True))
        places = [firsts.setdefault(row, place) for place, row in rows]
        chosen, self.inverse = np.unique(places, return_inverse=True)
        self.layout = Ragged.of_tags(tags[chosen], prefixes.device)
        self.shifted = copy(self.layout)  # by what is skipped: positions in the document
        skipped = prefixes.skipped.repeat(prefixes.beam)[chosen]
        self.shifted.position = self.layout.position + skipped[self.layout.doc]
        if not np.array_equal(doc[chosen], getattr(self, "chosen_documents", None)):
            self.chosen_documents, self._layouts = doc[chosen], {}
        for pattern in self.patterns.values():
            pattern.advance(self)

    def layout_of(self, name: str) -> Ragged:
        """Return the layout of a memory's documents, one for each prefix that scopes are asked
        for.
        """
        if name not in self._layouts:
            tags = tags_by_document(self.memories[name].layout)
            self._layouts[name] = Ragged.of_tags(tags[self.chosen_documents], self.prefixes.device)
        return self._layouts[name]

    def pattern(self, block: AttentionBlock, scope: Scope) -> PrefixPattern | MemoryPattern:
        """See ``View.pattern``."""
        key = block.memory, scope
        if key not in self.patterns:
            if block.memory is None:
                self.patterns[key] = PrefixPattern(self.prefixes, scope)
            else:
                self.patterns[key] = MemoryPattern(
                    self.prefixes, scope, block.memory, self.shared[block.memory]
                )
            self.patterns[key].advance(self)
        return self.patterns[key]

    def recurrence(self, scope: Scope) -> StepRecurrence:
        """See ``View.recurrence``."""
        return StepRecurrence(self, scope == BySentence())


class MemoryPattern:
    """A scope's pattern of the newest tokens over a memory (``modules.attention.Pattern``)."""

    def __init__(self, prefixes: Prefixes, scope: Scope, name: str, shared: SharedKeys):
        self.scope, self.name, self.shared = scope, name, shared
        self.dtype = prefixes.dtype
        self.reading = SharedReading(prefixes.beam, prefixes.device, prefixes.dtype)

    def advance(self, view: StepView) -> None:
        """Ask the scope what the newest tokens see."""
        self.queries, self.memory = view.newest, view.memories[self.name]
        keys = view.layout_of(self.name)
        seen = seen_by_newest(
            self.scope.reach(view.shifted, keys, False), keys.position, keys.length
        )
        self.reading.look(self.shared, self.shared.starts[view.documents], seen[view.inverse])

    def project(self, module: MultiheadAttention, x: Tensor, memory: Tensor) -> tuple:
        """Return queries, and the module, whose keys and values are projected once."""
        if module not in self.shared.sides:
            sides = module.keys_and_values(memory, self.memory.layout.tag)
            self.shared.sides[module] = torch.stack(sides).to(self.dtype)
        return module.project_queries(x, self.queries.tag), module, None

    def attend(
        self,
        q: Tensor,
        k: MultiheadAttention,
        v: None,
        dropout: float,
        relative: Tensor | None = None,
    ):
        """See ``Pattern.attend``; k and v are those of ``project``."""
        return by_hypothesis(self.reading.attend(k, by_group(q, self.reading.beam))).flatten(1)


class PrefixPattern:
    """A scope's pattern of the newest tokens over the prefixes (``modules.attention.Pattern``).

    Attributes:
        first: the first own token that a hypothesis sees.
    """

    def __init__(self, prefixes: Prefixes, scope: Scope):
        self.prefixes, self.scope = prefixes, scope
        self.reading = SharedReading(prefixes.beam, prefixes.device, prefixes.dtype)

    def advance(self, view: StepView) -> None:
        """Ask the scope what the newest tokens see."""
        prefixes, self.queries = self.prefixes, view.newest
        layout, shared = view.layout, prefixes.shared_tags.shape[1]
        seen = seen_by_newest(self.scope.reach(layout, layout, True), layout.column, layout.length)[
            view.inverse
        ]
        own = seen[:, shared:]
        self.reads_shared = bool(seen[:, :shared].any())
        if self.reads_shared:
            begins = prefixes.shared.starts[prefixes.document]
            self.reading.look(prefixes.shared, begins, seen[:, :shared])
        self.first = int(own.any(axis=0).argmax())
        blind = ~seen.any(axis=1)
        visible = prefixes.own.visible(
            self.first, own[:, self.first :] | blind[:, None]
        )  # these results are discarded
        self.blind = on_device(blind, prefixes.device).unsqueeze(1) if blind.any() else None
        self.mask = None if visible.all() else scores_of(visible, prefixes.device, prefixes.dtype)
        self.distances: dict[int, Tensor] = {}

    def project(self, module: MultiheadAttention, x: Tensor, memory: Tensor) -> tuple:
        """Store keys and values of the newest tokens; return queries, the module, and keys and
        values of all own tokens.
        """
        q, k, v = module.project(x, memory, self.queries.tag, self.queries.tag)
        return q, module, self.prefixes.own.append(module, k, v)

    def attend(
        self,
        q: Tensor,
        k: MultiheadAttention,
        v: Tensor,
        dropout: float,
        relative: Tensor | None = None,
    ):
        """See ``Pattern.attend``; k and v are those of ``project``."""
        keys, values = v[:, :, :, self.prefixes.own.column(self.first) :]
        q, mask = by_group(q, self.prefixes.beam), self.mask
        if relative is not None:
            scores = self._relative_scores(q, relative)
            mine = scores[..., scores.shape[-1] - keys.shape[2] :]
            mask = mine if mask is None else mask + mine
        if self.reads_shared:
            q = scaled(q)
            outer = self.reading.scores(k, q)
            if relative is not None:
                outer = outer + scores[..., : outer.shape[-1]]
            inner = torch.matmul(q, keys.transpose(2, 3))
            inner = inner if mask is None else inner + mask
            weights = attention_weights(torch.cat([outer, inner], dim=-1))
            outer, inner = weights.split([outer.shape[-1], inner.shape[-1]], dim=-1)
            found = torch.matmul(inner, values) + self.reading.sums(k, outer)
        else:
            found = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        found = by_hypothesis(found).flatten(1)
        return found if self.blind is None else found.masked_fill(self.blind, 0.0)

    def _relative_scores(self, q: Tensor, table: Tensor) -> Tensor:
        """Return the scores of relative positions of all keys that are read, (groups, heads, beam,
        keys).
        """
        clip, beam = len(table) // 2, self.prefixes.beam
        if clip not in self.distances:
            own, tokens = len(self.prefixes.own), np.arange(self.first, len(self.prefixes.own))
            columns = np.where(tokens < self.prefixes.own.once, 1, beam)
            distance = np.tile((tokens - own + 1).repeat(columns), (len(q), 1))
            if self.reads_shared:
                column = self.reading.first[:, None] + np.arange(self.reading.index.shape[1])
                outer = column - (self.prefixes.lengths[:, None] + own - 1)
                distance = np.concatenate([outer, distance], axis=1)
            self.distances[clip] = on_device(distance.clip(-clip, clip) + clip, q.device)[
                :, None, None
            ]
        scores = torch.matmul(scaled(q), table.to(q.dtype).t())
        return scores.gather(3, self.distances[clip].expand(-1, *q.shape[1:3], -1))


class StepRecurrence:
    """The newest states of recurrent units; ``by_sentence``: they begin at zero with every
    sentence.
    """

    def __init__(self, view: StepView, by_sentence: bool):
        self.view, self.by_sentence = view, by_sentence

    def states(self, module: Ssru, forget: Tensor, new: Tensor) -> Tensor:
        """Return c = f * c + new of the newest tokens, (hypotheses, channels), and keep it."""
        states, newest = self.view.prefixes.states, self.view.newest
        if module not in states:
            states[module] = torch.zeros_like(new)
        before = states[module]
        if self.by_sentence and len(newest.begins):
            before = before.index_fill(0, on_device(newest.begins, before.device), 0.0)
        states[module] = forget * before + new
        return states[module]


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
