"""Beam search over documents, each at a step of its own: finished ones make room for those that wait.

It finds what fairseq's ``SequenceGenerator`` with ``DocumentSearch`` finds (a test compares them), at less cost: what a
prefix may continue with is counted along instead of read off the prefix, tokens without a choice need no logits, no log
probability is written down that is not a candidate, and hypotheses are chains of back pointers instead of rows that are
copied at every step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gtransformer.errors import UserError


@dataclass
class Rules:
    """What a document may look like and what it is worth.

    A document begins with a given ``bos`` and ends in ``language``; ``forbidden`` (n,) int64 never stand inside a
    sentence; ``min_len`` fewest words of a sentence; a hypothesis of n tokens behind the given one has the score
    sum / n ** lenpen, or the sum without ``normalise``.
    """

    bos: int
    eos: int
    unk: int
    language: int
    forbidden: Tensor
    min_len: int
    beam: int
    lenpen: float = 1.0
    unkpen: float = 0.0
    temperature: float = 1.0
    normalise: bool = True


@dataclass
class Document:
    """The hypotheses of one document: for every step, the token and the former row of each row, and its score."""

    number: int
    limits: list[int]
    tokens: list[np.ndarray] = field(default_factory=list)
    parents: list[np.ndarray] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    finished: list[dict] = field(default_factory=list)

    def trace(self, row: int) -> tuple[list[int], list[float]]:
        """Tokens of a row and the sums of their log probabilities so far."""
        tokens, scores = [], []
        for token, parent, score in zip(
            reversed(self.tokens), reversed(self.parents), reversed(self.scores), strict=True
        ):
            tokens.append(int(token[row]))
            scores.append(float(score[row]))
            row = int(parent[row])
        return tokens[::-1], scores[::-1]


class BeamSearch:
    """Searches a batch of encoded documents with one model or several.

    Args:
        rules: what is allowed and how it is scored.
        decoders: one decoder for each model.
        memories: encoder output for each model, one row a document.
        limits: (documents, most sentences) int64, longest translation of each sentence in words.
        sentences: (documents,) int64, how many there are.
        at_once: documents translated at a time; the others wait. 0 means all.
        on_step: called before every step, for clocks and progress.
    """

    def __init__(
        self,
        rules: Rules,
        decoders,
        memories,
        limits: Tensor,
        sentences: Tensor,
        at_once: int = 0,
        on_step: Callable[[], None] | None = None,
    ):
        self.rules, self.beam, self.on_step = rules, rules.beam, on_step
        limits = [row[:count] for row, count in zip(limits.tolist(), sentences.tolist(), strict=True)]
        self.device = memories[0].states.device
        self.forbidden = rules.forbidden.to(self.device)
        self.all = [Document(number, row) for number, row in enumerate(limits)]
        self.waiting = deque(self.all)
        slots = min(len(self.all), at_once) if at_once else len(self.all)
        self.active = [self.waiting.popleft() for _ in range(slots)]
        rows = torch.arange(slots, device=self.device).repeat_interleave(self.beam)
        self.states = [
            decoder.begin(memory.reorder(rows), slots * self.beam)
            for decoder, memory in zip(decoders, memories, strict=True)
        ]
        # (documents, beam) each: the newest token, complete sentences, words of the current one, sum of log p.
        shape = slots, self.beam
        self.last = np.full(shape, rules.bos)
        self.done, self.words = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self.scores = np.full(shape, -np.inf)
        self.scores[:, 0] = 0.0  # all rows are the same at first

    def run(self) -> list[list[dict]]:
        """fairseq's hypotheses of every document, best first."""
        while self.active:
            if self.on_step:
                self.on_step()
            self._step()
        return [sorted(document.finished, key=lambda h: -h["score"].item()) for document in self.all]

    def _step(self) -> None:
        rules, beam = self.rules, self.beam
        between = self.last == rules.eos
        opens = self.last == rules.bos
        tags = self.done + ~between
        last = torch.from_numpy(self.last.ravel()).to(self.device)
        features = [state.step(last, opens, tags) for state in self.states]

        # (documents, beam, 2 * beam) candidates: the best words of each row, or the one token without a choice.
        values = np.full((*self.last.shape, 2 * beam), -np.inf)
        tokens = np.full(values.shape, rules.eos)
        inside = np.flatnonzero(~between.ravel() & np.isfinite(self.scores).ravel())
        if len(inside):
            found, words = self._best_words(features, inside)
            width = found.shape[1]
            values.reshape(-1, 2 * beam)[inside, :width] = found
            tokens.reshape(-1, 2 * beam)[inside, :width] = words
        count = np.array([len(document.limits) for document in self.active])[:, None]
        values[between, 0] = 0.0
        tokens[between, 0] = np.where(self.done < count, rules.bos, rules.language)[between]
        values += self.scores[..., None]
        self._choose(values.reshape(len(values), -1), tokens.reshape(len(values), -1))

    def _limits(self) -> np.ndarray:
        """(documents, beam): longest translation of the sentence that each row is at."""
        return np.array(
            [
                [document.limits[min(done, len(document.limits) - 1)] if document.limits else 0 for done in row]
                for document, row in zip(self.active, self.done.tolist(), strict=True)
            ]
        )

    def _best_words(self, features: list[Tensor], inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log probability and index of the best 2 * beam continuations of the rows ``inside``, best first."""
        rules = self.rules
        rows = torch.from_numpy(inside).to(self.device)
        everything = len(inside) == len(features[0])
        scores = []
        for state, x in zip(self.states, features, strict=True):
            logits = state.logits(x if everything else x.index_select(0, rows))
            if rules.temperature != 1.0:
                logits = logits / rules.temperature
            exact = torch.float64 if logits.dtype == torch.float64 else torch.float32
            scores.append(logits.log_softmax(dim=1, dtype=exact))
        lprobs = scores[0]
        if len(scores) > 1:
            lprobs = torch.stack(scores).logsumexp(dim=0) - np.log(len(scores))
        if rules.unkpen:
            lprobs[:, rules.unk] -= rules.unkpen
        words, limits = self.words.ravel()[inside], self._limits().ravel()[inside]
        full = words >= limits
        end = lprobs[:, rules.eos].clone()
        lprobs.index_fill_(1, self.forbidden, -torch.inf)
        short = np.flatnonzero((words < rules.min_len) & ~full)
        if len(short):
            lprobs[torch.from_numpy(short).to(self.device), rules.eos] = -torch.inf
        if full.any():
            where = torch.from_numpy(np.flatnonzero(full)).to(self.device)
            lprobs[where] = -torch.inf
            lprobs[where, rules.eos] = end[where]
        best, index = lprobs.topk(min(2 * self.beam, lprobs.shape[1]), dim=1)
        best = best.double().cpu().numpy()
        if np.isnan(best).any():
            raise UserError("the model's log probabilities are not numbers: its weights or its precision are at fault")
        return best, index.cpu().numpy()

    def _choose(self, values: np.ndarray, tokens: np.ndarray) -> None:
        """Go on with the best candidates (documents, beam * 2 * beam) and note hypotheses that have ended."""
        beam, rules = self.beam, self.rules
        order = np.argsort(-values, axis=1, kind="stable")[:, : 2 * beam]
        values = np.take_along_axis(values, order, axis=1)
        tokens = np.take_along_axis(tokens, order, axis=1)
        parents = order // (2 * beam)
        ends = (tokens == rules.language) & np.isfinite(values)
        # What ends below the first ``beam`` places is lost; of the others the best go on.
        goes_on = np.argsort(ends, axis=1, kind="stable")[:, :beam]
        leaving = []
        for slot, document in enumerate(self.active):
            for place in np.flatnonzero(ends[slot, :beam]).tolist():
                if len(document.finished) < beam:
                    self._finish(document, int(parents[slot, place]), float(values[slot, place]))
            alive = np.isfinite(values[slot, goes_on[slot]]).any()
            if len(document.finished) == beam or not alive:
                leaving.append(slot)
        self.scores = np.take_along_axis(values, goes_on, axis=1)
        self.last = np.take_along_axis(tokens, goes_on, axis=1)
        parents = np.take_along_axis(parents, goes_on, axis=1)
        done, words = (np.take_along_axis(side, parents, axis=1) for side in (self.done, self.words))
        self.done = done + (self.last == rules.eos)
        self.words = np.where(self.last == rules.bos, 0, words + (self.last != rules.eos))
        for slot, document in enumerate(self.active):
            document.tokens.append(self.last[slot])
            document.parents.append(parents[slot])
            document.scores.append(self.scores[slot])
        self._move(parents, leaving)

    def _finish(self, document: Document, row: int, score: float) -> None:
        tokens, sums = document.trace(row)
        tokens, sums = [*tokens, self.rules.language], [*sums, score]
        normal = score / len(tokens) ** self.rules.lenpen if self.rules.normalise else score
        document.finished.append(
            {
                "tokens": torch.tensor(tokens, device=self.device),
                "score": torch.tensor(normal, device=self.device),
                "attention": torch.empty(0),
                "alignment": torch.empty(0),
                "positional_scores": torch.tensor(np.diff(sums, prepend=0.0), dtype=torch.float32, device=self.device),
            }
        )

    def _move(self, parents: np.ndarray, leaving: list[int]) -> None:
        """Let the models' rows follow; finished documents give their rows to waiting ones, or leave the batch."""
        entering = leaving[: len(self.waiting)]
        kept = [slot for slot in range(len(self.active)) if slot not in leaving or slot in entering]
        order = torch.from_numpy((parents[kept] + np.array(kept, dtype=np.int64)[:, None] * self.beam).ravel())
        for state in self.states:
            state.reorder(order)
        if len(kept) < len(self.active):
            self.active = [self.active[slot] for slot in kept]
            self.last, self.done, self.words, self.scores = (
                side[kept] for side in (self.last, self.done, self.words, self.scores)
            )
        for old in entering:
            slot, document = kept.index(old), self.waiting.popleft()
            self.active[slot] = document
            for state in self.states:
                state.replace(slot, document.number)
            self.last[slot], self.done[slot], self.words[slot] = self.rules.bos, 0, 0
            self.scores[slot] = -np.inf
            self.scores[slot, 0] = 0.0
