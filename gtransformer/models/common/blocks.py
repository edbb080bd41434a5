"""Declarations of a layer's attention: which keys, how far each query sees, how two attentions are
joined.

A ``Scope`` is a rule; a ``Reach`` (modules/reach.py) is its result for the documents of a batch.
The full pass asks for the reach of all tokens, decoding for that of the newest ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_document, by_sentence


@dataclass(frozen=True)
class Scope:
    """A rule of who sees whom; equal ones share their patterns. Each kind has a ``name`` for
    analyses and logs.
    """

    name = ""
    # Whether a query sees the memory's sentence with its number, or a position aligned with its
    # own: both documents need the same number of sentences.
    pairs_sentences = True

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        """Apply the rule to the documents of a batch; ``causal``: queries are some of the keys, and
        the last key that each sees is itself.

        ``queries.whole`` is False for prefixes in decoding. What a query sees must not depend on
        later queries then. In its steps queries are the newest tokens alone (see
        ``Ragged.history``).
        """
        raise NotImplementedError


@dataclass(frozen=True)
class BySentence(Scope):
    """The keys of the query's own sentence: group attention (Bao et al. 2021, Eq. 6-9)."""

    name = "group"
    reach = staticmethod(by_sentence)


@dataclass(frozen=True)
class ByDocument(Scope):
    """All keys of the query's document: global attention (Bao et al. 2021, Eq. 5)."""

    name = "global"
    pairs_sentences = False
    reach = staticmethod(by_document)


@dataclass(frozen=True)
class AttentionBlock:
    """One attention block of a layer, with residual and norm. In self-attention of a decoder no
    query sees later keys.

    Attributes:
        name: its parameters are ``{name}_local``, ``{name}_global``, ``{name}_gate``,
            ``{name}_layer_norm``.
        scopes: for each attention module (one, or two joined by the gate of Eq. 10) its scopes; the
            results of several scopes are concatenated before the module's output projection.
        memory: whose states are the keys: None for the layer's own (self-attention), or the name of
            a memory.
        relative: positions relative to the query, learned up to this distance (Shaw et al. 2018);
            None: none.
        gated: a gate replaces the residual connection around the block, of one module (Zhang et al.
            2018, Eq. 21).
        numbered: modules that see whole documents only receive the numbers of sentences
            (``SentenceNumbers``).
        gate_bias: initial bias of the gate of Eq. 10.
        recurrent: an SSRU (``modules/ssru.py``) replaces the first attention module, within its
            scope.
    """

    name: str
    scopes: tuple[tuple[Scope, ...], ...]
    memory: str | None = None
    relative: int | None = None
    gated: bool = False
    numbered: bool = False
    gate_bias: float = 0.0
    recurrent: bool = False

    def __post_init__(self) -> None:
        # The caches of decoding know no distances to a memory.
        if self.memory is not None and self.relative is not None:
            raise ValueError("relative positions are those of a layer's own keys, not of a memory")

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """Names of the attention modules; a single module is ``{name}_local``, whatever it sees."""
        # The release's names, so that its checkpoints load.
        return tuple(f"{self.name}_{end}" for end in ("local", "global")[: len(self.scopes)])

    @cached_property
    def gate(self) -> str | None:
        """Name of the gate: it joins two modules, or replaces the residual connection."""
        return f"{self.name}_gate" if len(self.scopes) == 2 or self.gated else None

    @cached_property
    def norm(self) -> str:
        """Name of the layer norm."""
        return f"{self.name}_layer_norm"
