"""Declarations of a layer's attention: which keys, how far each query sees, how two attentions are joined.

A ``Scope`` is a rule; a ``Reach`` (modules/reach.py) is its result for the documents of a batch. The declared blocks
define both the full pass and decoding token by token. The full pass uses each scope's reach, decoding its cached
attention. If a scope has none, decoding recomputes the whole prefix at every step, which is slow but correct.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

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
