"""Decoding token by token: with caches, at a cost that grows with the sentence, or by recomputing the whole prefix.

Group attention never looks before the ``<s>`` that opened a sentence, so earlier keys are dropped there. Only global
self-attention keeps the whole prefix, most of it once for all hypotheses. Keys and values of cross-attention are
projected once a document and shared by its hypotheses. Reordering hypotheses moves no key and no value.

The ``beam`` hypotheses of a document are adjacent and form a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.models.common.decoding.cached_memory import same_documents
from gtransformer.models.common.decoding.cached_recurrence import CachedRecurrence
from gtransformer.models.common.decoding.history import FIRST_CAPACITY, ForcedPrefixes, Masks
from gtransformer.models.common.decoding.layer_step import LayerStep, Pack, history_of
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.modules.ragged import Memory, Ragged, on_device


class DecodingState:
    """The state of decoding: what it stores of its hypotheses, and one step.

    Args:
        decoder: the decoder, in evaluation mode.
        memory: encoder output; its ``documents`` are those that each hypothesis translates.
        hypotheses: number of hypotheses.
        beam: how many of them form a group; None: those of one document. Less lets several groups translate sentences
            of one document.
    """

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, hypotheses: int, beam: int | None = None):
        self.decoder, self.memory = decoder, memory
        self.device = memory.states.device
        self.documents = documents_of(memory, hypotheses, beam)
        self.beam = hypotheses // max(1, len(self.documents))

    @property
    def vocabulary(self) -> int:
        """Number of words."""
        return len(self.decoder.output_projection.weight)

    @property
    def steps(self) -> int:
        """Tokens that have been read, of the group with most."""

    def step(self, tokens: Tensor, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        """Read a new last token of every hypothesis.

        Args:
            tokens: (hypotheses,) int64 on the device.
            opens: (groups, beam) bool, True at ``<s>``; tags: (groups, beam) int64, the number of its sentence.

        Returns:
            top states of the new tokens, (hypotheses, channels).
        """

    def force(
        self, targets: Sequence[Tensor], lengths: np.ndarray | None = None, features: bool = True
    ) -> Tensor | None:
        """Read what the hypotheses of each group begin with, before the first step.

        Args:
            targets: for each document of the memory (length,) int64 on the device, whole sentences, possibly none.
            lengths: (groups,) int64, each group begins with so many tokens of its document's target. None: with all
                of it.
            features: whether the result is wanted.

        Returns:
            top states of all tokens of the targets, document by document, (N, channels); None if not wanted.
        """

    def begin_later(self, more: np.ndarray) -> None:
        """Begin each group so many tokens of its target later, (groups,) int64, after ``force`` and before any step."""
        raise NotImplementedError

    def skip(self, positions: np.ndarray) -> None:
        """Begin each group at a position of its document, (groups,) int64, without what precedes it."""

    def logits(self, features: Tensor) -> Tensor:
        """Compute logits, (n, channels) -> (n, vocabulary)."""

    def reorder(self, order: Tensor) -> None:
        """Continue hypothesis ``order[i]`` as hypothesis i; documents may leave, hypotheses of one may swap.

        Raises ValueError if hypotheses of several documents would become one group.
        """

    def finish(self, document: int, tokens: Tensor) -> None:
        """Receive a document's translation, (n,) int64 without the language symbol, before the ``reorder`` that removes
        it; other documents may still read it.
        """


class CachedState(DecodingState):
    """Decoding with caches; ``pack`` packs the weights of linear layers with one input, as PackedLinear does."""

    def __init__(
        self, decoder: DocumentEmbedding, memory: Memory, hypotheses: int, pack: Pack, beam: int | None = None
    ):
        super().__init__(decoder, memory, hypotheses, beam)
        self.inputs = decoder.input_step(decoder, memory, self.documents, self.beam, pack)
        self.history = history_of(decoder.scopes(None), len(self.documents), self.beam, decoder.restarts)
        self.readers = {
            (name, scope): scope.cached_memory(scope, one, self.documents, self.beam)
            for name, one in memory.by_name().items()
            for scope in decoder.scopes(name)
        }
        self.layers = [LayerStep(layer, self.readers, pack) for layer in decoder.layers]
        blocks = [block for layer in self.layers for block in layer.blocks]
        self.attentions = [one for block in blocks for side_by_side in block.attentions for one in side_by_side]
        self.recurrent = [one for one in self.attentions if isinstance(one, CachedRecurrence)]
        self.output = pack(decoder.output_projection)
        self.forced: ForcedPrefixes | None = None  # before the first step

    @property
    def steps(self) -> int:
        return int(self.history.steps.max(initial=0))

    def step(self, tokens: Tensor, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        self.forced = None
        self.history.advance(opens)
        for reader in self.readers.values():
            reader.advance(opens, tags, self.history.steps - 1)
        equal = self.history.clock == 1 and opens.all() and (tags == tags[:, :1]).all()  # every hypothesis is <s>
        masks = Masks(self.history, tags.ravel(), self.device, self.memory.states.dtype, self.beam if equal else 1)
        x = masks.reduce(self.inputs.step(tokens, self.history.positions(self.decoder.restarts), opens, tags))
        for layer in self.layers:
            x = layer.step(x, masks)
        moves = self.history.agreed()
        if moves:
            for one in self.attentions:
                one.promote(moves)
        return masks.expand(self._normalised(x))

    def _normalised(self, x: Tensor) -> Tensor:
        norm = self.decoder.layer_norm
        return x if norm is None else norm(x)

    def force(
        self, targets: Sequence[Tensor], lengths: np.ndarray | None = None, features: bool = True
    ) -> Tensor | None:
        """Begin all hypotheses of all groups by one full pass over the targets of their documents."""
        self.forced = read_targets(self.decoder, self.memory, targets)
        with self.decoder.autocast():
            x = self.inputs.force(self.forced)
            *before, last = self.layers
            for layer in before:
                x = layer.force(x, self.forced)
            x = self._normalised(last.force(x, self.forced)) if features else last.hold(x, self.forced)
        self._place(prefix_lengths(targets, lengths, self.documents))
        return x

    def begin_later(self, more: np.ndarray) -> None:
        self._place(self.history.steps + more)

    def _place(self, lengths: np.ndarray) -> None:
        """Fill the caches of each group with the keys of the first ``lengths`` (groups,) tokens of its target."""
        self.forced.place(self.history, self.documents, lengths)
        for reader in self.readers.values():
            reader.force(self.forced)
        for one, new in self.forced.held:
            one.force(new, self.forced)

    def skip(self, positions: np.ndarray) -> None:
        self.history.steps = positions.copy()

    def logits(self, features: Tensor) -> Tensor:
        return self.decoder.mask_unpredictable(self.output(features))

    def reorder(self, order: Tensor) -> None:
        groups, beams = regrouped(order, self.beam)
        for one in (self.history, self.inputs, *self.readers.values()):
            one.reorder(groups, beams)
        if self.recurrent:
            order = on_device(groups, self.device), on_device(beams, self.device)
            for one in self.recurrent:
                one.reorder(*order)
        if same_documents(groups, self.documents):
            return
        self.documents = self.documents[groups]
        selected = on_device(groups, self.device)
        for one in self.attentions:
            one.select(selected)

    def finish(self, document: int, tokens: Tensor) -> None:
        self.inputs.finish(document, tokens)


class PrefixState(DecodingState):
    """Decoding without caches: every step recomputes the whole prefix, by the decoder's ``extract_ragged``.

    It is slow (a document of n tokens costs n full passes) but correct for any full pass. New systems decode with it
    until their scopes have caches, and caches are tested against it.
    """

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, hypotheses: int, beam: int | None = None):
        super().__init__(decoder, memory, hypotheses, beam)
        self.lengths = np.zeros(len(self.documents), dtype=np.int64)  # tokens read of each document
        self.tokens = torch.full((hypotheses, FIRST_CAPACITY), decoder.padding, device=self.device)

    @property
    def steps(self) -> int:
        return int(self.lengths.max(initial=0))

    def step(self, tokens: Tensor, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        if self.steps == self.tokens.shape[1]:
            self.tokens = torch.cat([self.tokens, torch.full_like(self.tokens, self.decoder.padding)], dim=1)
        last = on_device(np.repeat(self.lengths, self.beam), self.device)
        self.tokens[torch.arange(len(tokens), device=self.device), last] = tokens
        self.lengths += 1
        prefixes = self.tokens[:, : self.steps]
        documents = on_device(np.repeat(self.documents, self.beam), self.device)
        with self.decoder.autocast():
            layout = self.decoder.layout(prefixes)
            layout.whole = False
            x = self.decoder.extract_ragged(prefixes, layout, replace(self.memory, documents=documents).expanded())
        return x[on_device(layout.doc_starts[1:] - 1, self.device)]

    def force(
        self, targets: Sequence[Tensor], lengths: np.ndarray | None = None, features: bool = True
    ) -> Tensor | None:
        self.lengths = prefix_lengths(targets, lengths, self.documents)
        room = max(0, self.steps - self.tokens.shape[1])
        self.tokens = torch.nn.functional.pad(self.tokens, (0, room), value=self.decoder.padding)
        for group, (document, length) in enumerate(zip(self.documents, self.lengths, strict=True)):
            self.tokens[group * self.beam : (group + 1) * self.beam, :length] = targets[document][:length]
        if not features:
            return None
        read = np.flatnonzero([len(target) for target in targets])
        padded, layout, memory = full_pass(self.decoder, self.memory, targets, read)
        with self.decoder.autocast():
            return self.decoder.extract_ragged(padded, layout, memory)

    def skip(self, positions: np.ndarray) -> None:
        """Raise UserError: a full pass over a sentence alone takes it for the first one of its document."""
        raise UserError(
            "--strategy parallel: the model decodes without caches, which cannot begin in the middle of a document; "
            "leave it out"
        )

    def logits(self, features: Tensor) -> Tensor:
        with self.decoder.autocast():
            return self.decoder.output_layer(features)

    def reorder(self, order: Tensor) -> None:
        groups, _ = regrouped(order, self.beam)
        self.tokens = self.tokens[order.to(self.device)]
        self.documents, self.lengths = self.documents[groups], self.lengths[groups]


class InputStep:
    """``DocumentEmbedding.embed_batch`` step by step; a decoder with another one sets its own as ``input_step``.

    Args:
        decoder, memory: as of ``CachedState``.
        documents: (groups,) int64, the document of ``memory`` that each group translates.
        beam: hypotheses of a group.
        pack: packs the weights of linear layers with one input, as PackedLinear.
    """

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, documents: np.ndarray, beam: int, pack: Pack):
        self.decoder = decoder

    def step(self, tokens: Tensor, offsets: np.ndarray, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        """Embed the newest token of every hypothesis -> (hypotheses, channels).

        Args:
            tokens: (hypotheses,) int64 on the device; offsets: (hypotheses,) int64, their positions, from 0.
            opens, tags: (groups, beam), as of ``DecodingState.step``.
        """
        where = on_device(offsets, tokens.device)
        return self.decoder.embed(tokens, where, int(offsets.max(initial=0)) + 1)

    def force(self, forced_prefixes: ForcedPrefixes) -> Tensor:
        """Embed what all hypotheses of a group begin with -> (N, channels)."""
        return self.decoder.embed(forced_prefixes.tokens, *self.decoder.token_positions(forced_prefixes.layout))

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        """Continue with old group ``groups[g]`` as group g, with its hypothesis ``beams[g, b]`` as hypothesis b."""

    def finish(self, document: int, tokens: Tensor) -> None:
        """Receive a translation: ``tokens`` (n,) int64 after the given ``<s>``, without the language symbol."""


def prefix_lengths(targets: Sequence[Tensor], lengths: np.ndarray | None, documents: np.ndarray) -> np.ndarray:
    """Return (groups,) int64, how many tokens of its document's target each group begins with."""
    whole = np.array([len(target) for target in targets], dtype=np.int64)[documents]
    return whole if lengths is None else lengths


def full_pass(
    decoder: DocumentEmbedding, memory: Memory, targets: Sequence[Tensor], read: np.ndarray
) -> tuple[Tensor, Ragged, Memory]:
    """Return the padded targets of the documents ``read``, their layout as prefixes, and these documents' memory."""
    padded = torch.nn.utils.rnn.pad_sequence(
        [targets[document] for document in read], batch_first=True, padding_value=decoder.padding
    )
    layout = decoder.layout(padded)
    layout.whole = False
    return padded, layout, replace(memory, documents=on_device(read, padded.device)).expanded()


def read_targets(decoder: DocumentEmbedding, memory: Memory, targets: Sequence[Tensor]) -> ForcedPrefixes:
    """Prepare the full pass over the ``targets``, as of ``DecodingState.force``; at least one has tokens."""
    read = np.flatnonzero([len(target) for target in targets])
    padded, layout, own = full_pass(decoder, memory, targets, read)
    return ForcedPrefixes(
        layout.pack(padded),
        layout,
        decoder.view(layout, own.by_name()),
        decoder.embed_tokens.weight.dtype,
        read,
        [np.flatnonzero(target.cpu().numpy() == decoder.bos) for target in targets],
    )


def documents_of(memory: Memory, hypotheses: int, beam: int | None = None) -> np.ndarray:
    """Return the document of each group, (groups,) int64.

    Without ``beam``, hypotheses in groups of equal size, document by document, form these groups; else each is a group
    of its own.
    """
    documents = np.arange(hypotheses) if memory.documents is None else memory.documents.cpu().numpy()
    if beam is not None:
        return documents[::beam]
    if not len(documents):
        return documents
    begins = np.flatnonzero(np.diff(documents, prepend=documents[0] - 1))
    sizes = np.diff(begins, append=len(documents))
    values = documents[begins]
    return values if (sizes == sizes[0]).all() and len(np.unique(values)) == len(values) else documents


def regrouped(order: Tensor, beam: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the old group of each new one (groups,), and each hypothesis's old number in it (groups, beam).

    Raises ValueError if hypotheses of several documents would become one group.
    """
    host = order.numpy(force=True)
    origin, beams = (host // beam).reshape(-1, beam), (host % beam).reshape(-1, beam)
    groups = origin[:, 0]
    if (origin != groups[:, None]).any():
        raise ValueError("the hypotheses of a document must stay together")
    return groups, beams
