"""Declarations of a layer's attention: which keys, how far each query sees, how two attentions are joined.

A ``Scope`` is a rule; a ``Reach`` (modules/reach.py) is its result for the documents of a batch. The declared blocks
define both the full pass and decoding token by token. The full pass uses each scope's reach, decoding its cached
attention. If a scope has none, decoding recomputes the whole prefix at every step, which is slow but correct.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.models.common.decoding.cached_attention import (
    CachedAttention,
    CachedDocument,
    CachedSentences,
    CachedTokens,
)
from gtransformer.models.common.decoding.cached_memory import CachedMemoryDocument, CachedMemorySentence
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_document, by_sentence

CACHING = ("prefix_sentences", "prefix_tokens", "cached_memory")


@dataclass(frozen=True)
class Scope:
    """A rule of who sees whom; equal ones share their patterns. Each kind has a ``name`` for analyses and logs.

    The attributes for decoding with caches are declared, and checked against ``reach`` when a decoder is built. A kind
    with a ``reach`` of its own inherits none of them.

    * ``prefix_sentences``, of causal self-attention: the newest token sees the last so many sentences of the prefix,
      its own included; infinity: all. ``prefix_tokens`` is the same in tokens. For other rules override
      ``cached_prefix``.
    * ``cached_memory``, of attention to a memory: a class of ``decoding.cached_memory`` that computes what the newest
      tokens see. ``CachedIntervals`` is right for every rule that depends only on a query's document, sentence and
      position.
    """

    name = ""
    depends_on_length = False  # whether who sees whom depends on the lengths of whole documents
    pairs_sentences = True  # whether a query sees the memory's sentence with the same number
    aligns = False  # whether it aligns positions of two documents
    prefix_sentences = None
    prefix_tokens = None
    cached_memory = None

    def __init_subclass__(cls) -> None:
        if not cls.name:
            raise TypeError(f"{cls.__name__}: a scope needs a name")
        if "reach" in vars(cls):
            for name in CACHING:
                if name not in vars(cls):
                    setattr(cls, name, None)

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        """Apply the rule to the documents of a batch; ``causal``: no query sees later keys."""
        raise NotImplementedError

    def cached_prefix(self, relative: Tensor | None) -> CachedAttention | None:
        """Return self-attention for decoding, None if there is none; ``relative``: vectors of relative positions."""
        if self.prefix_tokens is not None:
            return CachedTokens(self.prefix_tokens, relative)
        if self.prefix_sentences is None or relative is not None:
            return None
        return CachedDocument() if self.prefix_sentences == math.inf else CachedSentences(self.prefix_sentences)


@dataclass(frozen=True)
class BySentence(Scope):
    """The keys of the query's own sentence: group attention (Bao et al. 2021, Eq. 6-9)."""

    name = "group"
    prefix_sentences = 1
    cached_memory = CachedMemorySentence
    reach = staticmethod(by_sentence)


@dataclass(frozen=True)
class ByDocument(Scope):
    """All keys of the query's document: global attention (Bao et al. 2021, Eq. 5)."""

    name = "global"
    pairs_sentences = False
    prefix_sentences = math.inf
    cached_memory = CachedMemoryDocument
    reach = staticmethod(by_document)


def trial_layout(*documents: Sequence[int]) -> Ragged:
    """Return a layout of documents whose tokens have these tags, to test a scope on."""
    tags = torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in documents], batch_first=True)
    return Ragged(tags.ne(0), tags)


@cache
def check_reach(scope: Scope, memory: bool, causal: bool) -> None:
    """Raise UserError if a scope's result for two documents is no valid reach; ``memory``: it attends to one."""
    queries = trial_layout([1, 1, 1, 2, 3, 3], [1, 1, 2, 2, 2, 3, 4])
    keys = trial_layout([1, 1, 2, 2, 2, 3, 3, 3], [1, 2, 2, 3, 4, 4]) if memory else queries
    for whole in (True, False):  # it is False for forced prefixes
        queries.whole = whole
        reach = scope.reach(queries, keys, causal)
        fault, order = f"scope {scope.name} ({type(scope).__name__}): reach gives", np.asarray(reach.order)
        if len(np.unique(order)) < len(order):
            raise UserError(f"{fault} an order that has a key twice; give each once, or two scopes")
        for query, (first, last) in enumerate(zip(reach.first, reach.last, strict=True)):
            seen = order[first:last] if last > first else order[:0]
            where = f"the query {queries.position[query]} of document {queries.doc[query]}"
            if max(0, last - first) > len(seen) or (keys.doc[seen] != queries.doc[query]).any():
                raise UserError(f"{fault} {where} keys outside of its document; let its interval end there")
            if causal and (keys.position[seen] > queries.position[query]).any():
                raise UserError(f"{fault} {where} later keys; end its interval at its own position, if causal")


@dataclass(frozen=True)
class AttentionBlock:
    """One attention block of a layer, with residual and norm.

    Attributes:
        name: its parameters are ``{name}_local``, ``{name}_global``, ``{name}_gate``, ``{name}_layer_norm``.
        scopes: for each attention module (one, or two joined by the gate of Eq. 10) its scopes; the results of several
            scopes are concatenated before the module's output projection.
        memory: whose states are the keys: None for the layer's own (self-attention), or the name of a memory.
        causal: whether no query sees later keys.
        relative: positions relative to the query, learned up to this distance (Shaw et al. 2018); None: none.
        gated: a gate replaces the residual connection around the block (Zhang et al. 2018, Eq. 21).
        numbered: modules that see whole documents only receive the numbers of sentences (``SentenceNumbers``).
        gate_bias: initial bias of the gate of Eq. 10.
        recurrent: an SSRU (``modules/ssru.py``) replaces the first attention module, within its scope.

    Raises ValueError for an invalid name, for scopes that are no tuple of tuples, for more than two modules, and for
    two in a gated block: one gate is enough.
    """

    name: str
    scopes: tuple[tuple[Scope, ...], ...]
    memory: str | None = None
    causal: bool = False
    relative: int | None = None
    gated: bool = False
    numbered: bool = False
    gate_bias: float = 0.0
    recurrent: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.isidentifier()):
            raise ValueError(f"AttentionBlock: name={self.name!r} begins names of modules; give one like 'self_attn'")
        given = self.scopes if isinstance(self.scopes, tuple) else ()
        if not given or not all(isinstance(one, tuple) and one for one in given):
            raise ValueError(f"{self.name}: scopes={self.scopes!r}; give a tuple for each module, such as ((SCOPE,),)")
        if not all(isinstance(scope, Scope) for one in given for scope in one):
            raise ValueError(f"{self.name}: scopes={self.scopes!r}; give objects of Scope, such as ((BySentence(),),)")
        if len(given) > 2:
            raise ValueError(f"{self.name}: scopes are of {len(given)} modules; give one, or two that a gate joins")
        if self.gated and len(self.scopes) != 1:
            raise ValueError(f"{self.name}: a gated block has one attention module, not {len(self.scopes)}")

        if self.recurrent and (not self.causal or self.scopes[0] not in ((BySentence(),), (ByDocument(),))):
            raise ValueError(f"{self.name}: recurrent is for causal self-attention by sentence or by document")

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """Names of the attention modules; a single module is ``{name}_local``, whatever it sees."""
        return tuple(f"{self.name}_{end}" for end in ("local", "global")[: len(self.scopes)])

    @cached_property
    def gate(self) -> str | None:
        """Name of the gate that joins two modules."""
        return f"{self.name}_gate" if len(self.scopes) == 2 else None

    @cached_property
    def residual_gate(self) -> str | None:
        """Name of the gate that replaces the residual connection."""
        return f"{self.name}_gate" if self.gated else None
