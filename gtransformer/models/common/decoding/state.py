"""Decoding token by token: with caches, or by recomputing the whole prefix.

With caches a step runs the layers' own ``forward`` on the newest token of every hypothesis; a view (view.py) gives
their attention the keys and values of before. The ``beam`` hypotheses of a document are adjacent and form a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.models.common.decoding.caches import FIRST_CAPACITY, SHARED_BLOCK, SharedKeys
from gtransformer.models.common.decoding.view import FillingView, Prefixes, StepView
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.modules.ragged import ABSENT, Memory, Ragged, on_device


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

    def step(self, tokens: Tensor, tags: np.ndarray) -> Tensor:
        """Read a new last token of every hypothesis.

        Args:
            tokens: (hypotheses,) int64 on the device.
            tags: (groups, beam) int64, the number of its sentence.

        Returns:
            top states of the new tokens, (hypotheses, channels).
        """

    def force(self, targets: Sequence[Tensor], lengths: np.ndarray | None = None, features: bool = True) -> Tensor:
        """Read what the hypotheses of each group begin with, before the first step.

        Args:
            targets: for each document of the memory (length,) int64 on the device, whole sentences, possibly none.
            lengths: (groups,) int64, each group begins with so many tokens of its document's target. None: with all
                of it.
            features: whether the result is wanted.

        Returns:
            top states of all tokens of the targets, document by document, (N, channels); None if not computed.
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
    """Decoding with caches."""

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, hypotheses: int, beam: int | None = None):
        super().__init__(decoder, memory, hypotheses, beam)
        dtype = decoder.embed_tokens.weight.dtype
        self.prefixes = Prefixes(len(self.documents), self.beam, self.device, dtype)
        self.view = StepView(self.prefixes, memory.by_name())
        self.batch_keys = decoder.batch_keys(memory, self.beam)
        self.clock = 0

    @property
    def steps(self) -> int:
        return int(self.prefixes.lengths.max(initial=0)) + len(self.prefixes.own)

    def step(self, tokens: Tensor, tags: np.ndarray) -> Tensor:
        self.prefixes.own.add(tags.ravel())
        self.view.advance(self.documents, self.batch_keys)
        x = self.decoder.embed_batch(tokens.unsqueeze(1), self.view.newest, self.memory.per_document)
        x = self.decoder.run_layers(x, self.view)
        self.clock += 1
        if self.clock % SHARED_BLOCK == 0:
            number = self.view.shareable()
            if number >= SHARED_BLOCK:
                self.prefixes.share(number)
        return x

    def force(self, targets: Sequence[Tensor], lengths: np.ndarray | None = None, features: bool = True) -> Tensor:
        """Begin all hypotheses of all groups by one full pass over the targets of their documents."""
        read = np.flatnonzero([len(target) for target in targets])
        padded, layout, own = full_pass(self.decoder, self.memory, targets, read)
        tags = np.full((layout.batch, layout.length), ABSENT)
        tags[layout.doc, layout.position] = layout.tag
        # Groups whose documents have no target begin with nothing of any.
        document = np.searchsorted(read, self.documents).clip(max=len(read) - 1)
        self.prefixes.begin(SharedKeys(layout.doc_starts), tags, document)
        with self.decoder.autocast():
            x = self.decoder.embed_batch(padded, layout, own.per_document)
            x = self.decoder.run_layers(x, FillingView(self.decoder.view(layout, own.by_name()), self.prefixes))
        self.prefixes.place(prefix_lengths(targets, lengths, self.documents))
        return x

    def begin_later(self, more: np.ndarray) -> None:
        self.prefixes.place(self.prefixes.lengths + more)

    def skip(self, positions: np.ndarray) -> None:
        self.prefixes.skipped = positions

    def logits(self, features: Tensor) -> Tensor:
        return self.decoder.output_layer(features)

    def reorder(self, order: Tensor) -> None:
        host, groups = regrouped(order, self.beam)
        self.prefixes.reorder(host, groups)
        self.documents = self.documents[groups]
        if self.batch_keys is not None:
            self.batch_keys.reorder(host, groups)

    def finish(self, document: int, tokens: Tensor) -> None:
        if self.batch_keys is not None:
            self.batch_keys.finish(document, tokens)


class PrefixState(DecodingState):
    """Decoding without caches: every step recomputes the whole prefix, by the decoder's ``extract_ragged``.

    It is slow (a document of n tokens costs n full passes) but correct for any full pass: for decoders whose layers do
    not read one state a token, and as the reference in tests.
    """

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, hypotheses: int, beam: int | None = None):
        super().__init__(decoder, memory, hypotheses, beam)
        self.lengths = np.zeros(len(self.documents), dtype=np.int64)  # tokens read of each document
        self.tokens = torch.full((hypotheses, FIRST_CAPACITY), decoder.padding, device=self.device)

    @property
    def steps(self) -> int:
        return int(self.lengths.max(initial=0))

    def step(self, tokens: Tensor, tags: np.ndarray) -> Tensor:
        if self.steps == self.tokens.shape[1]:
            self.tokens = torch.cat([self.tokens, torch.full_like(self.tokens, self.decoder.padding)], dim=1)
        last = on_device(np.repeat(self.lengths, self.beam), self.device)
        self.tokens[torch.arange(len(tokens), device=self.device), last] = tokens
        self.lengths = self.lengths + 1
        prefixes = self.tokens[:, : self.steps]
        documents = on_device(np.repeat(self.documents, self.beam), self.device)
        with self.decoder.autocast():
            layout = self.decoder.layout(prefixes)
            layout.whole = False
            x = self.decoder.extract_ragged(prefixes, layout, replace(self.memory, documents=documents).expanded())
        return x[on_device(layout.doc_starts[1:] - 1, self.device)]

    def force(self, targets: Sequence[Tensor], lengths: np.ndarray | None = None, features: bool = True) -> Tensor:
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
        _, groups = regrouped(order, self.beam)
        self.tokens = self.tokens[order.to(self.device)]
        self.documents, self.lengths = self.documents[groups], self.lengths[groups]


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
    """Return the order (hypotheses,) on the host, and the old group of each new one, (groups,).

    Raises ValueError if hypotheses of several documents would become one group.
    """
    host = order.numpy(force=True)
    origin = (host // beam).reshape(-1, beam)
    groups = origin[:, 0]
    if (origin != groups[:, None]).any():
        raise ValueError("the hypotheses of a document must stay together")
    return host, groups
