"""The history of decoding: keys and values of the target, which never move when beam search reorders hypotheses.

The ``beam`` hypotheses of one document form a group. All hypotheses write a step's keys and values into the same slot
of the cache, where they stay. One small table of ancestors for all layers tells which of them belong to a hypothesis's
own prefix: only this table is reordered. Tokens that all hypotheses of a group share move to a shared prefix, which the
group stores once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from gtransformer.modules.ragged import Ragged, on_device

FIRST_CAPACITY = 16  # tokens: short sentences need no more, and caches are copied when a document leaves the batch
SHARED_BLOCK = 16  # tokens that hypotheses must share before these move to the shared prefix; steps between checks


class History:
    """Who wrote the tokens that a hypothesis sees: bookkeeping on the host, the same for all layers.

    ``ancestor`` (groups, beam, capacity): the hypothesis that wrote a slot of this prefix. ``starts`` (most of
    ``sentences``, groups, beam): first slot of the hypothesis's current sentence, of the one before it, and so on; the
    document's first slot for sentences that do not exist. ``shared_end`` (groups,): first slot of the document that is
    not in the shared prefix; ``shared_length`` (groups,): tokens there. ``sharers`` (groups,): the row of shared
    prefixes that each group reads, if several groups are sentences of one document and read one row; else None.

    Args:
        groups, beam: number of documents, and of hypotheses for each.
        sentences: how many sentences, the current one included, attention sees; one entry a scope, each from 1.
        document: whether some attention sees the whole prefix.
        tokens: how many tokens, the newest one included, attention sees; one entry a scope.
    """

    def __init__(
        self, groups: int, beam: int, sentences: Collection[int], document: bool, tokens: Collection[int] = ()
    ):
        self.sentences, self.document, self.tokens = sentences, document, tokens
        self.ancestor = np.zeros((groups, beam, FIRST_CAPACITY), dtype=np.int64)
        self.starts = np.zeros((max(sentences, default=0), groups, beam), dtype=np.int64)
        self.shared_end = np.zeros(groups, dtype=np.int64)
        self.shared_length = np.zeros(groups, dtype=np.int64)
        self.sharers: np.ndarray | None = None
        self.shared_rows = np.zeros(0, dtype=np.int64)  # the old rows that the newest reorder kept
        self.steps = np.zeros(groups, dtype=np.int64)  # tokens read of each document
        self.slots = 0  # slots in use
        self.clock = 0
        self.dropped = 0  # slots dropped by the newest step

    @property
    def beam(self) -> int:
        """Hypotheses of a group."""
        return self.ancestor.shape[1]

    @property
    def capacity(self) -> int:
        """Number of slots."""
        return self.ancestor.shape[2]

    def advance(self, opens: np.ndarray) -> None:
        """Add a slot for one more token of every hypothesis. ``opens`` (groups, beam): it is ``<s>``."""
        self.dropped = 0
        if self.slots == self.capacity:
            self._free_slots()
        slot, self.slots = self.slots, self.slots + 1
        self.ancestor[:, :, slot] = np.arange(self.ancestor.shape[1])
        self.starts[1:, opens] = self.starts[:-1, opens]
        self.starts[:1, opens] = slot
        self.steps += 1
        self.clock += 1

    def positions(self, restart: bool) -> np.ndarray:
        """Return (groups * beam,) int64, the newest token's position in its document or, with ``restart``, its
        sentence.

        For the latter ``sentences`` must not be empty.
        """
        if restart:
            return (self.slots - 1 - self.starts[0]).ravel()
        return np.repeat(self.steps - 1, self.beam)

    def force(self, begins: Sequence[np.ndarray], lengths: np.ndarray, within: np.ndarray) -> np.ndarray:
        """Begin each group with some tokens, the same for all hypotheses; fill slots for those that later tokens see.

        Slots end together, at the newest. They hold what attention by sentences or tokens will see after the following
        token; all hypotheses see those of beam 0. Attention to the whole document reads them from the shared prefix.

        Args:
            begins: for each group the positions of its ``<s>``; lengths: (groups,) int64, its tokens, possibly none;
            within: (groups,) bool, whether they end within a sentence: else the following token is ``<s>``.

        Returns:
            (groups,) int64, how many of the last tokens are in slots.
        """
        sentences = np.maximum(len(self.starts) - ~within, 0).tolist()  # that are begun and will be seen
        tokens = max(self.tokens, default=1) - 1
        oldest = [
            one[-seen:][0] if seen and len(one) else end
            for one, end, seen in zip(begins, lengths, sentences, strict=True)
        ]
        stored = np.minimum(lengths, np.maximum(lengths - np.array(oldest, dtype=np.int64), tokens))
        self.slots = int(stored.max(initial=0))
        wider = max(0, self.slots - self.capacity)
        self.ancestor = np.pad(self.ancestor, ((0, 0), (0, 0), (0, wider)))
        self.starts[:] = self.slots
        for group, (positions, length, seen) in enumerate(zip(begins, lengths, sentences, strict=True)):
            for back in range(seen if len(positions) else 0):
                self.starts[back:, group] = self.slots - length + positions[max(0, len(positions) - 1 - back)]
        self.steps = lengths.copy()
        self.shared_end[:] = self.slots
        self.shared_length = lengths.copy()
        return stored

    def _free_slots(self) -> None:
        """Drop the slots that no hypothesis sees any more, or double the number of slots if too few can be dropped."""
        oldest = self.slots + 1 - max(self.tokens, default=1)
        if self.starts.size:
            oldest = min(oldest, int(self.starts[-1].min()))
        if self.document and self.shared_end.size:
            oldest = min(oldest, int(self.shared_end.min()))
        if oldest >= self.capacity // 2:
            self.dropped = oldest
            self.ancestor = np.roll(self.ancestor, -oldest, axis=2)
            self.starts = np.maximum(self.starts - oldest, 0)
            self.shared_end = np.maximum(self.shared_end - oldest, 0)
            self.slots -= oldest
        else:
            self.ancestor = np.concatenate([self.ancestor, np.zeros_like(self.ancestor)], axis=2)

    def view(self, starts: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the first visible slot and, for it and later ones, who sees whose, (groups, beam, slots, beam) bool.

        ``starts`` (groups, beam or 1): first slot that a hypothesis sees.
        """
        first = int(starts.min())
        mine = self.ancestor[:, :, first : self.slots, None] == np.arange(self.ancestor.shape[1])
        return first, mine & (np.arange(first, self.slots) >= starts[..., None])[..., None]

    def first_of(self, tokens: int) -> np.ndarray:
        """Return (groups, 1): the slot of the first of the last so many tokens of each document."""
        return np.maximum(0, np.maximum(self.slots - tokens, self.slots - self.steps))[:, None]

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        """Continue with old group ``groups[g]`` as group g, with its hypothesis ``beams[g, b]`` as hypothesis b."""
        self.ancestor = self.ancestor[groups[:, None], beams]
        self.starts = self.starts[:, groups[:, None], beams]
        self.shared_end, self.shared_length = self.shared_end[groups], self.shared_length[groups]
        self.steps = self.steps[groups]
        if self.sharers is not None:
            self.shared_rows, self.sharers = np.unique(self.sharers[groups], return_inverse=True)

    def agreed(self) -> list[tuple[int, int, int, np.ndarray]]:
        """Return (group, first slot, shared length before, ancestors) of the tokens that become shared."""
        if not self.document or self.sharers is not None or self.clock % SHARED_BLOCK:
            return []
        same = (self.ancestor[:, :, : self.slots] == self.ancestor[:, :1, : self.slots]).all(axis=1)
        moves = []
        for group, start in enumerate(self.shared_end.tolist()):
            differs = np.flatnonzero(~same[group, start:])
            run = int(differs[0]) if len(differs) else self.slots - start
            if run >= SHARED_BLOCK:
                length = int(self.shared_length[group])
                moves.append((group, start, length, self.ancestor[group, 0, start : start + run].copy()))
                self.shared_end[group] += run
                self.shared_length[group] += run
        return moves


@dataclass
class ForcedPrefixes:
    """The targets that a full pass reads, and the slots in the caches of the prefixes that groups begin with.

    Attributes:
        tokens: (N,) int64 of the documents that are read, with their ``layout`` and the ``layer.View`` of a full pass;
            ``dtype`` is that of the steps, whatever autocast does here.
        documents: (read,) int64 on the host, which documents of the memory these are.
        begins: for each document of the memory, the positions of its ``<s>``.
        held: each attention with its keys and values of all N tokens.

    Set by ``place``:
        history: already includes the prefixes.
        rows: (read,) int64, where each is stored among the shared prefixes.
        groups: (n,) int64, the groups with a prefix; ends: (n,) int64 on the host, their last tokens among all N.
        group, slot, token: (m,) int64, tokens that have a slot of their group.
    """

    tokens: torch.Tensor
    layout: Ragged
    view: object
    dtype: torch.dtype
    documents: np.ndarray
    begins: Sequence[np.ndarray]
    held: list[tuple] = field(default_factory=list)

    def place(self, history: History, documents: np.ndarray, lengths: np.ndarray) -> None:
        """Begin each group (groups,) with so many tokens of its document's target, and add these to ``history``."""
        read, starts = self.documents, self.layout.doc_starts
        row = np.searchsorted(read, documents).clip(max=len(read) - 1)  # any, if its document has no target
        whole = np.where(read[row] == documents, self.layout.doc_lengths[row], 0)
        begins = [self.begins[document] for document in documents]
        open_next = [length in one for one, length in zip(begins, lengths, strict=True)]
        stored = history.force(
            [one[one < length] for one, length in zip(begins, lengths, strict=True)],
            lengths,
            (lengths < whole) & ~np.array(open_next),
        )
        together = len(np.unique(documents)) < len(documents)
        if together:
            history.sharers = row
        ends = starts[row] + lengths  # behind each prefix, among all tokens
        group = np.repeat(np.arange(len(lengths)), stored)
        back = np.repeat(np.cumsum(stored), stored) - np.arange(stored.sum())  # 1 at the newest token
        groups = np.flatnonzero(lengths)
        rows = np.arange(len(read)) if together else np.searchsorted(documents, read)
        indices = rows, groups, group, history.slots - back, ends[group] - back
        self.history, self.ends = history, ends[groups] - 1
        self.rows, self.groups, self.group, self.slot, self.token = (
            on_device(one, self.tokens.device) for one in indices
        )


class SharedRows:
    """Groups that read the same keys: their queries come together, so that keys are stored and read once.

    Args:
        rows: (groups,) int64, the row of keys that each group reads.
        number: of rows.
    """

    def __init__(self, rows: np.ndarray, number: int, device: torch.device):
        counts = np.bincount(rows, minlength=number)
        self.shape = number, int(counts.max(initial=1))
        order = np.argsort(rows, kind="stable")
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        position, group = np.empty_like(order), np.zeros(self.shape[0] * self.shape[1], dtype=np.int64)
        position[order] = rows[order] * self.shape[1] + within
        group[position[order]] = order
        self.group, self.position = on_device(group, device), on_device(position, device)

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        """Return x (groups, heads, beam, n) as (rows, heads, most groups of a row * beam, n)."""
        return x.index_select(0, self.group).unflatten(0, self.shape).transpose(1, 2).flatten(2, 3)

    def scatter(self, x: torch.Tensor) -> torch.Tensor:
        """Undo ``gather``."""
        return x.unflatten(2, (self.shape[1], -1)).transpose(1, 2).flatten(0, 1).index_select(0, self.position)


class Masks:
    """Which slots and shared tokens every hypothesis sees at the current step, added to scores; for all layers.

    ``tags`` (hypotheses,) int64: the sentence of each hypothesis. ``repeats``: runs of so many adjacent hypotheses are
    equal, and the layers' states have one row for each run; ``expand`` gives each hypothesis its row.

    Masks are (groups, 1, beam or 1, keys), None if all keys are visible. ``sentences`` and ``tokens`` map a number to
    the first slot of the last so many, and the mask. Keys of ``tail`` begin at ``tail_first``; ``shared`` is the mask
    of the ``shared_width`` tokens of the shared prefix that are read, and ``rows`` the ``SharedRows`` of ``sharers``.
    """

    def __init__(self, history: History, tags: np.ndarray, device: torch.device, dtype: torch.dtype, repeats: int = 1):
        self.history, self.tags, self.repeats = history, tags, repeats
        self.sentences: dict[int, tuple[int, torch.Tensor | None]] = {}
        for number in history.sentences:
            first, seen = history.view(history.starts[number - 1])
            self.sentences[number] = first, visible_to_score(_for_heads(seen), device, dtype)
        self.tokens: dict[int, tuple[int, torch.Tensor | None]] = {}
        for number in history.tokens:
            first, seen = history.view(history.first_of(number))
            self.tokens[number] = first, visible_to_score(_for_heads(seen), device, dtype)
        self.rows = None
        if history.document and history.sharers is not None:
            self.rows = SharedRows(history.sharers, int(history.sharers.max(initial=0)) + 1, device)
        if history.document:
            self.tail_first, seen = history.view(history.shared_end[:, None])
            self.tail = visible_to_score(_for_heads(seen), device, dtype)
            self.shared_width = int(history.shared_length.max(initial=0))
            seen = np.arange(self.shared_width) < history.shared_length[:, None]
            self.shared = visible_to_score(seen[:, None, None], device, dtype)

    def expand(self, x: torch.Tensor) -> torch.Tensor:
        """Return a row for each hypothesis."""
        return x if self.repeats == 1 else x.repeat_interleave(self.repeats, dim=0)

    def reduce(self, x: torch.Tensor) -> torch.Tensor:
        """Return a row for each run of equal hypotheses."""
        return x if self.repeats == 1 else x[:: self.repeats]


def _for_heads(seen: np.ndarray) -> np.ndarray:
    """Reshape (groups, beam, slots, beam) -> (groups, 1, beam, slots * beam)."""
    return seen.reshape(*seen.shape[:2], -1)[:, None]


def visible_to_score(visible: np.ndarray, device: torch.device, dtype: torch.dtype) -> torch.Tensor | None:
    """Return 0 for visible keys, minus infinity for others; None if all are visible."""
    if visible.all():
        return None
    score = np.where(visible, np.float32(0), np.float32(-np.inf))
    return on_device(score, device).to(dtype)
