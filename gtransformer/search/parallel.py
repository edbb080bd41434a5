"""Search over the sentences of documents in parallel: draft, verify, and search again what changes.

Decoding reads all weights for every token. A document that is translated in order has few hypotheses to read them for.
Here each sentence has a beam of its own, and all sentences of all documents are decoded together. If sentences do not
depend on each other, one search is enough. Otherwise greedy search comes first, in rounds:

1. Draft: every sentence is translated without the translations of the sentences before it.
2. Verify: one full pass over the drafted translation gives each sentence its context, keys and values, and shows the
   first word of each sentence that is not the most probable one after it. Greedy search goes on from this word. What
   precedes the first sentence that changes is final, and so is that one; the others follow in the next round.

With beam 1 this ends when all sentences are final. The result is that of greedy search over the document, because a
final sentence has final context. With a wider beam there are ``DRAFTS`` rounds. Then each sentence is searched once,
with a beam, after the draft of the sentences before it, and has the score that it has there. This differs from beam
search over the document, where hypotheses are whole translations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gtransformer.modules.ragged import on_device
from gtransformer.search.beam import BeamSearch, Beginnings, Scoring, joined_hypothesis
from gtransformer.search.rules import SentenceRule, SentenceState

if TYPE_CHECKING:
    from gtransformer.models.common.decoder import DocumentDecoder

Unit = tuple[int, int]  # document and sentence
Known = tuple[np.ndarray, np.ndarray]  # first words of a sentence, (n,) int64, and their log probabilities, float32
DRAFTS = 2  # greedy rounds before the search with a beam
CHUNK = 256  # tokens verified at a time, which bounds memory on a GPU


class ParallelSearch:
    """Search over a batch of encoded documents, all sentences at a time.

    Args:
        rule, scoring, decoders, memories: as of ``BeamSearch``; the scoring does not sample.
        limits: (documents, most sentences) int64, longest translation of each sentence in words.
        sentences: (documents,) int64, how many there are, at least one.
        room: how many positions the decoders have for a document, without those of one sentence's ``<s>``, ``</s>`` and
            the rule's ``prefix``.
    """

    def __init__(
        self,
        rule: SentenceRule,
        scoring: Scoring,
        decoders: Sequence[DocumentDecoder],
        memories,
        limits: Tensor,
        sentences: Tensor,
        room: int,
    ):
        self.rule, self.scoring, self.decoders, self.memories = rule, scoring, decoders, memories
        self.device = memories[0].states.device
        self.limits, self.sentences = limits.cpu().numpy(), sentences.cpu().numpy()
        self.independent = all(
            decoder.independent_sentences(memory) for decoder, memory in zip(decoders, memories, strict=True)
        )
        self.room = room
        # By document and sentence: ``words </s>`` and the log probability of each token.
        self.chosen: list[list[Tensor | None]] = [[None] * count for count in self.sentences]
        self.scores: list[list[Tensor | None]] = [[None] * count for count in self.sentences]

    @cached_property
    def begins(self) -> np.ndarray:
        """(documents, most sentences) int64, where each sentence of a draft begins: where its source does."""
        layout, most = self.memories[0].layout, self.limits.shape[1]
        lengths = np.zeros((len(self.limits), most + 1), dtype=np.int64)
        np.add.at(lengths, (layout.doc, layout.tag.clip(0, most)), 1)
        return np.minimum(lengths.cumsum(axis=1)[:, :-1], self.room - self.limits).clip(min=0)

    def run(self) -> list[list[dict]]:
        """Return fairseq's hypotheses of every document: one, or none if nothing was found."""
        self._translate()
        return [[self._whole(number)] if self._is_found(number) else [] for number in range(len(self.limits))]

    def _translate(self) -> None:
        documents = range(len(self.limits))
        if self.independent or self.scoring.beam == 1:
            return self._search_in_rounds(documents, 1 if self.independent else None)
        decoders = [one.for_drafts() for one in self.decoders]
        searched = self.rule, replace(self.scoring, beam=1), decoders, self.memories
        draft = ParallelSearch(*searched, *map(torch.from_numpy, (self.limits, self.sentences)), self.room)
        several = [number for number in documents if self.sentences[number] > 1]  # others have no context
        draft._search_in_rounds(several, DRAFTS)
        for number in several:
            self.chosen[number] = draft.chosen[number]
        every = self._sentences(dict.fromkeys(documents, 0))
        every = [unit for unit in every if self.sentences[unit[0]] == 1 or self._is_found(unit[0])]
        if every:
            self._store(every, self._begin(every, context=True).run())

    def _search_in_rounds(self, documents: Sequence[int], rounds: int | None) -> None:
        """Search so many times, or until all sentences are final; more than once only with beam 1."""
        every = self._sentences(dict.fromkeys(documents, 0))
        if not every:
            return
        self._store(every, self._begin(every, context=False).run())
        made, final = 1, dict.fromkeys(documents, 1)  # nothing precedes the first sentence
        while (final := self._unfinished(final)) and made != rounds:
            changed = self._search_again(final)
            for number in final:
                first = min((sentence for document, sentence in changed if document == number), default=None)
                final[number] = self.sentences[number] if first is None else first + 1
            made += 1

    def _unfinished(self, final: dict[int, int]) -> dict[int, int]:
        return {
            number: count
            for number, count in final.items()
            if count < self.sentences[number] and self._is_found(number)
        }

    def _is_found(self, number: int) -> bool:
        return all(one is not None for one in self.chosen[number])

    def _sentences(self, final: dict[int, int]) -> list[Unit]:
        """Return the sentences that are not final: ``final`` has how many of each document are."""
        return [(number, one) for number, count in final.items() for one in range(count, self.sentences[number])]

    def _store(self, units: list[Unit], found: list[list[dict]], known: dict[Unit, Known] | None = None) -> None:
        """Take what was found as the sentences' translations, behind the words that are known."""
        for unit, hypotheses in zip(units, found, strict=True):
            begun = (known or {}).get(unit)
            parts = [] if begun is None else [[on_device(one, self.device) for one in begun]]
            if hypotheses:
                parts.append([hypotheses[0][name][:-1] for name in ("tokens", "positional_scores")])
            number, sentence = unit
            self.chosen[number][sentence] = None
            if hypotheses or self._is_whole(begun):
                self.chosen[number][sentence], self.scores[number][sentence] = map(torch.cat, zip(*parts, strict=True))

    def _search_again(self, final: dict[int, int]) -> list[Unit]:
        """Search the sentences with context whose words change, from the first such word on; return them."""
        units = self._sentences(final)
        search = self._begin(units, context=True)
        known = self._verify(search, final)
        self._begin_later(search, units, known)
        search.keep(np.array([unit in known and not self._is_whole(known[unit]) for unit in units]))
        found = dict(zip(units, search.run(), strict=True))
        changed = list(known)
        self._store(changed, [found[unit] for unit in changed], known)
        return changed

    def _is_whole(self, known: Known | None) -> bool:
        return known is not None and int(known[0][-1]) == self.rule.eos

    def _begin_later(self, search: BeamSearch, units: list[Unit], known: dict[Unit, Known]):
        """Let each search go on behind the words that are known; the last of them is its first input."""
        more, newest = np.zeros(len(units), dtype=np.int64), search.prefixes.newest.copy()
        for place, unit in enumerate(units):
            if unit in known:
                more[place], newest[place] = len(known[unit][0]), int(known[unit][0][-1])
        words = (more[:, None] - (self.rule.prefix is not None)).clip(min=0)
        search.begin_later(more, SentenceState(newest, search.prefixes.complete, words))

    def _begin(self, units: list[Unit], context: bool) -> BeamSearch:
        documents, sentences = np.array(units).T
        targets, lengths, positions = [], np.zeros_like(documents), None
        if context:
            wanted = {number for number in documents.tolist() if self.sentences[number] > 1}
            nothing = torch.zeros(0, dtype=torch.int64, device=self.device)
            targets = [self._read(one) if one in wanted else nothing for one in range(len(self.limits))]
            ends = {one: np.cumsum([0, *(1 + len(part) for part in self.chosen[one])]) for one in wanted}
            lengths = np.array([ends[number][sentence] if sentence else 0 for number, sentence in units])
        else:
            positions = self.begins[documents, sentences]
        beginnings = Beginnings(targets, documents, lengths, sentences, positions)
        limits, number = torch.from_numpy(self.limits[documents]), torch.from_numpy(sentences + 1)
        return BeamSearch(self.rule, self.scoring, self.decoders, self.memories, limits, number, beginnings=beginnings)

    def _read(self, number: int) -> Tensor:
        """Return a document's translation as the decoder reads it: ``<s> words </s>`` for each sentence."""
        bos = self.chosen[number][0].new_tensor([self.rule.bos])
        return torch.cat([part for one in self.chosen[number] for part in (bos, one)])

    def _verify(self, search: BeamSearch, final: dict[int, int]) -> dict[Unit, Known]:
        """Return the sentences that change after their context, each with its words up to the first new one, included.

        A sentence changes if a word of it is not the most probable one. The scores of the others become those after
        their context.
        """
        rule, prefix = self.rule, 0 if self.rule.prefix is None else 1
        parts = [(number, one) for number in sorted(final) for one in range(self.sentences[number])]
        tokens = [self.chosen[number][one].cpu().numpy() for number, one in parts]
        lengths = np.array([1 + len(one) for one in tokens])  # with <s>
        begins = np.cumsum(lengths) - lengths
        scores = np.zeros(lengths.sum())
        predicted = np.concatenate([[*one, rule.eos] for one in tokens])  # the last one, of </s>, does not count
        predicts = np.concatenate(
            [
                np.arange(begin + prefix, begin + length - 1) if one >= final[number] else np.zeros(0, dtype=np.int64)
                for (number, one), begin, length in zip(parts, begins, lengths, strict=True)
            ]
        )
        part = np.repeat(np.arange(len(parts)), lengths)[predicts]
        number, sentence = np.array(parts)[part].T
        words = predicts - begins[part] - prefix
        state = SentenceState(predicted[predicts - 1], sentence[:, None], words[:, None])
        short, full = (one[:, 0] for one in rule.length_bounds(state, self.limits[number]))
        differs: dict[int, tuple[int, int, float]] = {}  # by part the first other word: its place, itself, its score
        for first in range(0, len(predicts), CHUNK):
            chunk = slice(first, first + CHUNK)
            found = search.best_words(search.read, predicts[chunk], short[chunk], full[chunk])
            best, index = (one[:, 0] for one in found)
            scores[predicts[chunk]] = best
            for place in np.flatnonzero(index != predicted[predicts[chunk]]).tolist():
                which = int(part[chunk][place])
                word = int(predicts[chunk][place] - begins[which]), int(index[place]), float(best[place])
                differs.setdefault(which, word)
        known: dict[Unit, Known] = {}
        for place, unit in enumerate(parts):
            own = scores[begins[place] : begins[place] + lengths[place] - 1].astype(np.float32)
            if place in differs:
                before, word, score = differs[place]
                known[unit] = np.append(tokens[place][:before], word), np.append(own[:before], np.float32(score))
            elif unit[1] >= final[unit[0]]:
                self.scores[unit[0]][unit[1]] = on_device(own, self.device)
        return known

    def _whole(self, number: int) -> dict:
        scoring, symbols = self.scoring, (self.rule.bos, self.rule.language)
        parts = self.chosen[number], self.scores[number]
        return joined_hypothesis(*parts, *symbols, scoring.normalise, scoring.lenpen)
