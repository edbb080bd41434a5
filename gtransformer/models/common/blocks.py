"""What a layer declares of its attention: which keys, how far each query sees, how two attentions are joined.

A ``Scope`` is a rule, a ``Reach`` (modules/reach.py) what the rule gives for the documents of a batch. The full pass
and decoding token by token both follow from the blocks that a layer declares: the full pass asks each scope for its
reach, decoding picks the cache that goes with the scope (decoding/attention_step.py). For a scope that has none it goes
through the whole prefix again, which is slow and right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from gtransformer.models.common.memory import Memory
from gtransformer.modules.attention import Pattern, make_pattern
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_document, by_sentence


@dataclass(frozen=True)
class Scope:
    """A rule of who sees whom; equal ones share their patterns. Each kind has a ``name`` for analyses and logs.

    ``prefix_sentences`` names the reach of causal self-attention for decoding: the newest token sees the last so many
    sentences of the prefix, its own included; infinity: all. ``prefix_tokens`` says it in tokens. None: nothing is
    said, and decoding goes through the whole prefix at every step. A kind with a ``reach`` of its own inherits neither.
    """

    name = ""
    minds_length = False  # whether who sees whom depends on how long whole documents are
    prefix_sentences = None
    prefix_tokens = None

    def __init_subclass__(cls) -> None:
        if not cls.name:
            raise TypeError(f"{cls.__name__}: a scope needs a name")
        if "reach" in vars(cls) and not {"prefix_sentences", "prefix_tokens"} & vars(cls).keys():
            cls.prefix_sentences = cls.prefix_tokens = None

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        """The rule at work on the documents of a batch; ``causal``: no query sees what comes after it."""
        raise NotImplementedError


@dataclass(frozen=True)
class BySentence(Scope):
    """The keys of the query's own sentence: group attention (Bao et al. 2021, Eq. 6-9)."""

    name = "group"
    prefix_sentences = 1

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        return by_sentence(queries, keys, causal)


@dataclass(frozen=True)
class ByDocument(Scope):
    """All keys of the query's document: global attention (Bao et al. 2021, Eq. 5)."""

    name = "global"
    prefix_sentences = math.inf

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        return by_document(queries, keys, causal)


@dataclass(frozen=True)
class AttentionBlock:
    """One attention block of a layer, with residual and norm.

    Attributes:
        name: its parameters are ``{name}_local``, ``{name}_global``, ``{name}_gate``, ``{name}_layer_norm``.
        scopes: for each attention module (one, or two joined by the gate of Eq. 10) the scopes that its heads look at;
            what they find at several scopes is concatenated in front of the module's output projection.
        memory: whose states are the keys: None for the layer's own (self-attention), or the name of a memory.
        causal: whether no query sees what comes after it.
        relative: positions relative to the query, learned up to this distance (Shaw et al. 2018); None: none.
        gated: a gate stands in place of the residual connection around the block (Zhang et al. 2018, Eq. 21).
        numbered: what sees whole documents and nothing else is told the numbers of the sentences (``SentenceNumbers``).
        gate_bias: of the gate of Eq. 10 at first.

    Raises ValueError for two modules in a gated block: one gate is enough.
    """

    name: str
    scopes: tuple[tuple[Scope, ...], ...]
    memory: str | None = None
    causal: bool = False
    relative: int | None = None
    gated: bool = False
    numbered: bool = False
    gate_bias: float = 0.0

    def __post_init__(self) -> None:
        if self.gated and len(self.scopes) != 1:
            raise ValueError(f"{self.name}: a gated block has one attention module, not {len(self.scopes)}")

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the attention modules; attention that is alone is ``{name}_local``, whatever it sees."""
        return tuple(f"{self.name}_{end}" for end in ("local", "global")[: len(self.scopes)])

    @property
    def gate(self) -> str | None:
        """Name of the gate that joins two modules."""
        return f"{self.name}_gate" if len(self.scopes) == 2 else None

    @property
    def residual_gate(self) -> str | None:
        """Name of the gate in place of the residual connection."""
        return f"{self.name}_gate" if self.gated else None


class View:
    """What the blocks of all layers look at in one pass over a batch: each pattern is made once.

    Args:
        engine: of attention, a key of ``modules.attention.ENGINES``.
        layout: of the queries.
        memories: further states to attend to, by name.
    """

    def __init__(self, engine: str, layout: Ragged, memories: dict[str, Memory]):
        self.engine, self.layout, self.memories = engine, layout, memories
        self._patterns: dict[tuple[Scope, str | None, bool], Pattern] = {}

    def keys(self, block: AttentionBlock, own: Tensor) -> Tensor:
        """The states (keys, channels) that a block attends to; ``own`` are the layer's."""
        return own if block.memory is None else self.memories[block.memory].states

    def pattern(self, block: AttentionBlock, scope: Scope) -> Pattern:
        """Who sees whom at a scope of a block."""
        wanted = scope, block.memory, block.causal
        if wanted not in self._patterns:
            keys = self.layout if block.memory is None else self.memories[block.memory].layout
            self._patterns[wanted] = make_pattern(self.engine, scope.reach(self.layout, keys, block.causal))
        return self._patterns[wanted]
