"""Search over the sentences of documents in parallel: draft, verify, and search again what changes.

Decoding reads all weights for every token. A document that is translated in order has few
hypotheses to read them for. Here each sentence has a beam of its own, and all sentences of all
documents are decoded together. If sentences do not depend on each other, one search is enough.
Otherwise greedy search comes first, in rounds:

1. Draft: every sentence is translated without the translations of the sentences before it.
2. Verify: one full pass over the drafted translation gives each sentence its context, keys and
   values, and shows the first word of each sentence that is not the most probable one after it.
   Greedy search goes on from this word. What precedes the first sentence that changes is final, and
   so is that one; the others follow in the next round.

With beam 1 this ends when all sentences are final. The result is that of greedy search over the
document, because a final sentence has final context. With a wider beam there are ``DRAFTS`` rounds.
Then each sentence is searched once, with a beam, after the draft of the sentences before it, and
has the score that it has there. This differs from beam search over the document, where hypotheses
are whole translations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gtransformer.modules.ragged import on_device
from gtransformer.search.beam import BeamSearch, Scoring, best_words, joined
from gtransformer.search.rules import SentenceRule, SentenceState

if TYPE_CHECKING:
    from gtransformer.models.common.decoder import DocumentDecoder
    from gtransformer.models.common.decoding.state import CachedState
    from gtransformer.modules.ragged import Memory

DRAFTS = 2  # greedy rounds before the search with a beam


class ParallelSearch:
    """Search over a batch of encoded documents, all sentences at a time.

    Args:
        rule, scoring: as of ``BeamSearch``; the scoring does not sample.
        decoders: one for each model.
        memories: encoder output for each model.
        limits: (documents, most sentences) int64, longest translation of each sentence in words.
        sentences: (documents,) int64, how many there are, at least one.
        room: how many positions the decoders have for a document, without those of one sentence's
            ``<s>``, ``</s>`` and the rule's ``prefix``.

    Attributes:
        document, sentence: (N,) int64, where each sentence of the batch is, in reading order.
        chosen: for each of these its translation so far, ``words </s>``, int64.
        scores: for each the log probabilities of these tokens.
    """

    def __init__(
        self,
        rule: SentenceRule,
        scoring: Scoring,
        decoders: Sequence[DocumentDecoder],
        memories: Sequence[Memory],
        limits: np.ndarray,
        sentences: np.ndarray,
        room: int,
    ):
        self.rule, self.scoring, self.decoders, self.memories = rule, scoring, decoders, memories
        self.limits, self.sentences, self.room = limits, sentences, room
        self.independent = all(
            decoder.independent_sentences(memory)
            for decoder, memory in zip(decoders, memories, strict=True)
        )
        self.document, self.sentence = np.nonzero(np.arange(limits.shape[1]) < sentences[:, None])
        self.given = int(rule.prefix is not None)  # tokens of a sentence that are given after <s>
        self.chosen: list[np.ndarray]
        self.scores: list[np.ndarray]

    def run(self) -> list[list[dict]]:
        """Return fairseq's hypotheses of every document: one."""
        if self.independent:
            self._draft(self.scoring)
        else:
            greedy = replace(self.scoring, beam=1)
            self._draft(greedy)
            final, rounds = np.ones_like(self.sentences), 1  # nothing precedes the first sentence
            while (final < self.sentences).any() and (self.scoring.beam == 1 or rounds < DRAFTS):
                final, rounds = self._search_again(greedy, final), rounds + 1
            if self.scoring.beam > 1:
                self._search_with_beam()
        found = []
        for first, count in zip(
            np.cumsum(self.sentences) - self.sentences, self.sentences, strict=True
        ):
            own = slice(first, first + count)
            found.append([joined(self.chosen[own], self.scores[own], self.rule, self.scoring)])
        return found

    def _draft(self, scoring: Scoring) -> None:
        """Translate every sentence without context; it has the positions where its source
        begins.
        """
        layout, most = self.memories[0].layout, self.limits.shape[1]
        lengths = np.zeros((len(self.limits), most + 1), dtype=np.int64)
        np.add.at(lengths, (layout.doc, layout.tag.clip(0, most)), 1)
        begins = np.minimum(lengths.cumsum(axis=1)[:, :-1], self.room - self.limits).clip(min=0)
        states = self._states(self.document, scoring.beam)
        for state in states:
            state.skip(begins[self.document, self.sentence])
        self._search_all(scoring, states)

    def _search_with_beam(self) -> None:
        """Search every sentence once after the drafts of the sentences before it."""
        states, _ = self._read(np.arange(len(self.limits)), self.scoring.beam)
        for state in states:
            state.begin_at(self.document, self._begins())
        self._search_all(self.scoring, states)

    def _search_all(self, scoring: Scoring, states: list[CachedState]) -> None:
        """Replace all translations."""
        count = len(self.document)
        self.chosen, self.scores = [np.zeros(0, dtype=np.int64)] * count, [np.zeros(0)] * count
        self._search(scoring, states, np.arange(count))

    def _search_again(self, scoring: Scoring, final: np.ndarray) -> np.ndarray:
        """Search sentences whose words change after their context, from the first such word on.

        ``final`` (documents,) int64: how many sentences of each document are final; returns the new
        numbers.
        """
        active, begins = np.flatnonzero(final < self.sentences), self._begins()
        states, features = self._read(active, beam=1)
        changed = self._verify(scoring, states, features, active, final)
        final = self.sentences.copy()
        np.minimum.at(final, self.document[changed], self.sentence[changed] + 1)
        unended = changed[[self.chosen[one][-1] != self.rule.eos for one in changed]]
        if len(unended):
            newest = np.array([self.chosen[one][-1] for one in unended])
            lengths = np.array([len(self.chosen[one]) for one in unended])
            for state in states:
                state.begin_at(
                    np.searchsorted(active, self.document[unended]), begins[unended] + lengths
                )
            start = newest, self.sentence[unended], lengths - self.given
            self._search(scoring, states, unended, SentenceState(*(one[:, None] for one in start)))
        return final

    def _search(
        self,
        scoring: Scoring,
        states: list[CachedState],
        which: np.ndarray,
        start: SentenceState | None = None,
    ) -> None:
        """Append to these sentences, (n,) int64, what a search finds behind what the states have
        read.
        """
        document, sentence = self.document[which], self.sentence[which]
        start = start or self.rule.start(len(which), scoring.beam, sentence)
        found = BeamSearch(
            self.rule, scoring, states, self.limits[document], sentence + 1, start
        ).run()
        for one, (best, *_) in zip(which, found, strict=True):
            self.chosen[one] = np.append(self.chosen[one], best["tokens"][:-1])
            self.scores[one] = np.append(self.scores[one], best["positional_scores"][:-1])

    def _states(self, documents: np.ndarray, beam: int) -> list[CachedState]:
        return [
            decoder.begin(memory, documents, beam)
            for decoder, memory in zip(self.decoders, self.memories, strict=True)
        ]

    def _begins(self) -> np.ndarray:
        """Return where each sentence begins in its document's translation, (N,) int64."""
        ends = np.cumsum([1 + len(one) for one in self.chosen])  # with <s>
        begins = np.concatenate([[0], ends[:-1]])
        return begins - begins[self.sentence == 0][self.document]

    def _read(self, documents: np.ndarray, beam: int) -> tuple[list[CachedState], list[Tensor]]:
        """Read the translations of documents by one full pass.

        Returns:
            of each model the state behind them, and its top states of all their tokens, (tokens,
            channels).
        """
        targets: list[list[int]] = [[] for _ in self.limits]
        for number, words in zip(self.document, self.chosen, strict=True):
            if number in documents:
                targets[number] += [self.rule.bos, *words]
        device = self.memories[0].states.device
        read = [torch.tensor(one, dtype=torch.int64, device=device) for one in targets]
        states = self._states(documents, beam)
        return states, [state.force(read) for state in states]

    def _verify(
        self,
        scoring: Scoring,
        states: list[CachedState],
        features: list[Tensor],
        active: np.ndarray,
        final: np.ndarray,
    ) -> np.ndarray:
        """Cut the sentences that change after their context behind their first new word; return
        which these are.

        A sentence changes if a word of it is not the most probable one. Scores become those after
        the context.
        """
        parts = np.flatnonzero(np.isin(self.document, active))
        lengths = np.array([1 + len(self.chosen[one]) for one in parts])  # with <s>
        tokens = np.concatenate([[self.rule.bos, *self.chosen[one]] for one in parts])
        part, within = (
            np.repeat(parts, lengths),
            np.concatenate([np.arange(length) for length in lengths]),
        )
        document, sentence = self.document[part], self.sentence[part]
        predicts = (
            (sentence >= final[document]) & (tokens != self.rule.eos) & (within >= self.given)
        )
        rows = np.flatnonzero(predicts)
        document, sentence, words = (one[rows] for one in (document, sentence, within - self.given))
        state = SentenceState(tokens[rows], sentence[:, None], words[:, None])
        short, full = (one[:, 0] for one in self.rule.length_bounds(state, self.limits[document]))
        index = on_device(rows, features[0].device)
        features = [x.index_select(0, index) for x in features]
        states[0].plan.begin()
        found = best_words(self.rule, scoring, states, lambda: features, short, full)
        best, found = (one[:, 0] for one in found)
        changed = []
        for one in np.unique(part[rows]):
            own = part[rows] == one
            given = self.chosen[one][: self.given]
            new, scores = np.append(given, found[own]), np.append(np.zeros(len(given)), best[own])
            differs = new != self.chosen[one]
            if differs.any():
                changed.append(one)
                end = differs.argmax() + 1
                new, scores = new[:end], scores[:end]
            self.chosen[one], self.scores[one] = new, scores
        return np.array(changed, dtype=np.int64)
