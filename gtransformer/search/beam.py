"""Beam search over a batch of documents; finished documents leave it.

It finds what fairseq's ``SequenceGenerator`` finds under the same rule (a test compares them), at less cost. Tokens
without an alternative need no logits. Log probabilities are stored only for candidates. Hypotheses are chains of back
pointers instead of rows copied at every step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.errors import UserError
from gtransformer.modules.kernels import largest, log_probabilities, rows_at_once
from gtransformer.modules.ragged import on_device
from gtransformer.search.rules import SentenceRule, SentenceState

if TYPE_CHECKING:
    from gtransformer.models.common.decoder import DocumentDecoder


@dataclass(frozen=True)
class Sampling:
    """A search that draws every word at random, never ``unk``; it has one hypothesis of a document (``beam`` is 1).

    Attributes:
        topk: words are drawn from the ``topk`` most probable ones, by their probabilities; 0: from all.
        seed: at least 0. What is drawn depends on the seed, on the document's source and its position in the text, not
            on its batch.
    """

    topk: int
    seed: int

    def generator(self, source: Tensor, position: Sequence[int] = ()) -> np.random.Generator:
        """Return the random numbers for a document.

        Args:
            source: (length,) int64, without padding.
            position: its ``TEXT_POSITION``, if known: equal documents of a text have different translations.
        """
        words = hashlib.sha256(source.cpu().numpy().astype("<i8").tobytes()).digest()
        return np.random.default_rng([self.seed, *np.frombuffer(words, dtype="<u4").tolist(), *position])

    def draw(self, lprobs: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return log probability and index of a drawn word, (n, 1) each.

        Args:
            lprobs: (n, vocabulary), -inf at words that are not allowed.
            numbers: (n,) float64, uniform between 0 and 1.
        """
        values, index = lprobs.topk(self.topk, dim=1) if 0 < self.topk < lprobs.shape[1] else (lprobs, None)
        cumulated = values.double().softmax(dim=1).cumsum(dim=1)
        below = (1 - 1e-12) * numbers.unsqueeze(1) * cumulated[:, -1:]  # always less than the sum
        drawn = (cumulated <= below).sum(dim=1, keepdim=True)
        return values.gather(1, drawn), drawn if index is None else index.gather(1, drawn)


@dataclass(frozen=True)
class Scoring:
    """The width of the search and the scores of hypotheses.

    A hypothesis of n tokens after the given one has the score sum / n ** lenpen, or the sum without ``normalise``;
    ``unkpen`` is subtracted from the log probability of ``unk``. With ``sampling`` words are drawn.
    """

    beam: int
    unk: int
    lenpen: float = 1.0
    unkpen: float = 0.0
    temperature: float = 1.0
    normalise: bool = True
    sampling: Sampling | None = None


@dataclass(frozen=True)
class Beginnings:
    """What hypotheses begin with: sentences that were chosen before, of their own document.

    Attributes:
        targets: for each document of the memory (length,) int64 on the device: ``<s> words </s>`` of each sentence,
            possibly none.
        documents: (searches,) int64, the document of the memory whose next sentences each search translates.
        lengths: (searches,) int64, how many tokens of its document's target each search begins with, whole sentences;
            complete: (searches,) int64, how many sentences precede it. ``BeamSearch.begin_later`` adds tokens.
        positions: (searches,) int64, where in its document each begins if what precedes it is not there; None: it is.
    """

    targets: Sequence[Tensor]
    documents: np.ndarray
    lengths: np.ndarray
    complete: np.ndarray
    positions: np.ndarray | None = None

    @classmethod
    def whole(cls, targets: Sequence[Tensor], eos: int) -> Beginnings:
        """Return those of searches that each begin with all of a target."""
        lengths, complete = (
            np.array(counts, dtype=np.int64)
            for counts in zip(*((len(one), int(one.eq(eos).sum())) for one in targets), strict=True)
        )
        return cls(targets, np.arange(len(targets)), lengths, complete)


@dataclass
class Document:
    """The hypotheses of a document: for every step the token of each, the hypothesis that it continues, its score."""

    number: int
    tokens: list[np.ndarray] = field(default_factory=list)
    parents: list[np.ndarray] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    finished: list[dict] = field(default_factory=list)

    def trace(self, hypothesis: int) -> tuple[list[int], list[float]]:
        """Return the tokens of a hypothesis, and the sums of their log probabilities so far."""
        tokens, scores = [], []
        steps = (reversed(one) for one in (self.tokens, self.parents, self.scores))
        for token, parent, score in zip(*steps, strict=True):
            tokens.append(int(token[hypothesis]))
            scores.append(float(score[hypothesis]))
            hypothesis = int(parent[hypothesis])
        return tokens[::-1], scores[::-1]


class BeamSearch:
    """Search over a batch of encoded documents with one model or several.

    Args:
        rule: the sentence rule.
        scoring: how hypotheses are scored.
        decoders: one decoder for each model.
        memories: encoder output for each model, one document after the other.
        limits: (documents, most sentences) int64, longest translation of each sentence in words.
        sentences: (documents,) int64, how many there are.
        beginnings: what each translation begins with. Hypotheses are what follows the ``<s>`` after it. ``limits`` and
            ``sentences`` are then those of each search, and several may be of one document.
        random: for each document its random numbers (``Sampling.generator``); only with ``scoring.sampling``.

    Attributes:
        read: for each model its features of all tokens of the beginnings' targets, (N, channels); None without targets.
    """

    def __init__(
        self,
        rule: SentenceRule,
        scoring: Scoring,
        decoders: Sequence[DocumentDecoder],
        memories,
        limits: Tensor,
        sentences: Tensor,
        beginnings: Beginnings | None = None,
        random: Sequence[np.random.Generator] = (),
    ):
        self.random = random
        self.device = memories[0].states.device
        self.rule, self.scoring, self.beam = rule.on(self.device), scoring, scoring.beam
        self.limits, self.sentences = limits.cpu().numpy(), sentences.cpu().numpy()[:, None]
        slots = len(limits)
        self.all = [Document(number) for number in range(slots)]
        self.active = self.all
        documents = np.arange(slots) if beginnings is None else beginnings.documents
        hypotheses = on_device(documents.repeat(self.beam), self.device)
        self.states = [
            decoder.begin(memory.reorder(hypotheses), self.beam)
            for decoder, memory in zip(decoders, memories, strict=True)
        ]
        self.prefixes = rule.start(slots, self.beam, 0 if beginnings is None else beginnings.complete)
        self.read = None
        if beginnings is not None and beginnings.positions is not None:
            for state in self.states:
                state.skip(beginnings.positions)
        elif beginnings is not None and any(map(len, beginnings.targets)):
            self.read = [state.force(beginnings.targets, beginnings.lengths) for state in self.states]
        self.scores = np.full((slots, self.beam), -np.inf)  # sums of log probabilities
        self.scores[:, 0] = 0.0  # of equal hypotheses only the first counts

    def begin_later(self, more: np.ndarray, prefixes: SentenceState) -> None:
        """Begin each search with (searches,) int64 tokens more, before the first step.

        ``prefixes``: their states behind one further token, which is given instead of ``<s>``.
        """
        for state in self.states:
            state.begin_later(more)
        self.prefixes = prefixes

    def keep(self, chosen: np.ndarray) -> None:
        """Leave out the documents that are not ``chosen``, (documents,) bool, before the first step."""
        slots = np.arange(len(self.active))[:, None]
        self._move(slots * self.beam + np.arange(self.beam), np.flatnonzero(~chosen).tolist())

    def run(self) -> list[list[dict]]:
        """Return fairseq's hypotheses of every document, best first; none of a document that was left out."""
        while self.active:
            self._step()
        return [sorted(document.finished, key=lambda h: -h["score"].item()) for document in self.all]

    def _step(self) -> None:
        rule, prefixes, width = self.rule, self.prefixes, 2 * self.beam
        between, numbers = rule.between(prefixes), [document.number for document in self.active]
        forced = rule.without_choice(prefixes, self.sentences[numbers])
        features: list[Tensor] = []
        if (~(between & (forced == rule.language)) & np.isfinite(self.scores)).any():  # some go on
            last = on_device(prefixes.newest.ravel(), self.device)
            tags = rule.tags(prefixes)
            features = [state.step(last, tags) for state in self.states]

        # (documents, beam, 2 * beam) candidates: each hypothesis's best words, or the one token without an alternative.
        values = np.full((*between.shape, width), -np.inf)
        tokens = np.full(values.shape, rule.eos)
        inside = np.flatnonzero(~between.ravel() & np.isfinite(self.scores).ravel())
        if len(inside):
            short, full = (which.ravel()[inside] for which in rule.length_bounds(prefixes, self.limits[numbers]))
            found, words = self.best_words(features, inside, short, full)
            values.reshape(-1, width)[inside, : found.shape[1]] = found
            tokens.reshape(-1, width)[inside, : found.shape[1]] = words
        values[between, 0] = 0.0
        tokens[between, 0] = forced[between]
        values += self.scores[..., None]
        self._choose(values.reshape(len(values), -1), tokens.reshape(len(values), -1))

    def best_words(
        self, features: list[Tensor], inside: np.ndarray, short: np.ndarray, full: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log probability and index of the best 2 * beam continuations of the hypotheses ``inside``, best first.

        With sampling it is one continuation, drawn.

        ``short`` and ``full``: for these hypotheses, whether their sentence may not end yet, or must end.
        """
        rows = rows_at_once(features[0], self.states[0].vocabulary)
        parts = [slice(first, first + rows) for first in range(0, len(inside), rows)]
        found = [self._best_of(features, inside[part], short[part], full[part]) for part in parts]
        best, index = torch.cat(found, dim=1).cpu().numpy()  # the step's only wait for a GPU
        if np.isnan(best).any():
            raise UserError("the model's log probabilities are not numbers: its weights or its precision are at fault")
        return best, index.astype(np.int64)

    def _best_of(self, features: list[Tensor], inside: np.ndarray, short: np.ndarray, full: np.ndarray) -> Tensor:
        """Return ``best_words`` on the device, as (2, hypotheses, words) float64."""
        scoring = self.scoring
        hypotheses = on_device(inside, self.device)
        everything = len(inside) == len(features[0])
        scores = []
        for state, x in zip(self.states, features, strict=True):
            logits = state.logits(x if everything else x.index_select(0, hypotheses))
            if scoring.temperature != 1.0:
                logits = logits / scoring.temperature
            scores.append(log_probabilities(logits))
        lprobs = scores[0]
        if len(scores) > 1:
            lprobs = torch.stack(scores).logsumexp(dim=0) - np.log(len(scores))
        if scoring.unkpen:
            lprobs[:, scoring.unk] -= scoring.unkpen
        self.rule.restrict(lprobs, *(on_device(np.flatnonzero(which), self.device) for which in (short, full)))
        if scoring.sampling:
            lprobs[:, scoring.unk] = -torch.inf  # no text
            numbers = np.array([self.random[self.active[slot].number].random() for slot in inside.tolist()])
            best, index = scoring.sampling.draw(lprobs, on_device(numbers, self.device))
        else:
            best, index = largest(lprobs, min(2 * self.beam, lprobs.shape[1]))
        return torch.stack([best.double(), index.double()])

    def _choose(self, values: np.ndarray, tokens: np.ndarray) -> None:
        """Continue the best candidates (documents, beam * 2 * beam) and store hypotheses that have ended."""
        beam = self.beam
        order = np.argsort(-values, axis=1, kind="stable")[:, : 2 * beam]
        values = np.take_along_axis(values, order, axis=1)
        tokens = np.take_along_axis(tokens, order, axis=1)
        parents = order // (2 * beam)
        ends = (tokens == self.rule.language) & np.isfinite(values)
        # Hypotheses that end below the first ``beam`` ranks are lost; the best of the others continue.
        continuing = np.argsort(ends, axis=1, kind="stable")[:, :beam]
        leaving = []
        for slot, document in enumerate(self.active):
            for rank in np.flatnonzero(ends[slot, :beam]).tolist():
                if len(document.finished) < beam:
                    self._finish(document, int(parents[slot, rank]), float(values[slot, rank]))
            alive = np.isfinite(values[slot, continuing[slot]]).any()
            if len(document.finished) == beam or not alive:
                leaving.append(slot)
        self.scores = np.take_along_axis(values, continuing, axis=1)
        tokens = np.take_along_axis(tokens, continuing, axis=1)
        parents = np.take_along_axis(parents, continuing, axis=1)
        slots = np.arange(len(self.active))[:, None]
        self.prefixes = self.rule.advance(self.prefixes.select((slots, parents)), tokens)
        for slot, document in enumerate(self.active):
            document.tokens.append(tokens[slot])
            document.parents.append(parents[slot])
            document.scores.append(self.scores[slot])
        for slot in leaving:
            self._report(self.active[slot])
        self._move(slots * beam + parents, leaving)

    def _report(self, document: Document) -> None:
        """Pass a document's translation, if there is one, to the models: other documents of its batch may read it."""
        if document.finished:
            best = max(document.finished, key=lambda hypothesis: hypothesis["score"].item())
            for state in self.states:
                state.finish(document.number, best["tokens"][:-1])

    def _finish(self, document: Document, hypothesis: int, score: float) -> None:
        tokens, sums = document.trace(hypothesis)
        tokens, sums = [*tokens, self.rule.language], [*sums, score]
        normal = score / len(tokens) ** self.scoring.lenpen if self.scoring.normalise else score
        document.finished.append(
            {
                "tokens": on_device(np.array(tokens), self.device),
                "score": torch.full((), normal, device=self.device),
                "attention": torch.empty(0),
                "alignment": torch.empty(0),
                "positional_scores": on_device(np.diff(sums, prepend=0.0).astype(np.float32), self.device),
            }
        )

    def _move(self, origins: np.ndarray, leaving: list[int]) -> None:
        """Reorder the models' hypotheses; finished documents leave the batch.

        ``origins`` (documents, beam): the hypothesis that each one continues.
        """
        remaining = [slot for slot in range(len(self.active)) if slot not in leaving]
        for state in self.states:
            state.reorder(torch.from_numpy(origins[remaining].ravel()))
        if len(remaining) < len(self.active):
            self.active = [self.active[slot] for slot in remaining]
            self.prefixes, self.scores = self.prefixes.select(remaining), self.scores[remaining]


def joined_hypothesis(
    chosen: Sequence[Tensor], scores: Sequence[Tensor], bos: int, language: int, normalise: bool, lenpen: float
) -> dict:
    """Return fairseq's hypothesis of a document from its sentences, ``words </s>`` each, and their tokens' scores.

    ``<s>`` and the language symbol cost nothing.
    """
    begin, end, nothing = chosen[0].new_tensor([bos]), chosen[0].new_tensor([language]), scores[0].new_zeros(1)
    tokens = torch.cat([*[part for one in chosen for part in (begin, one)][1:], end])
    each = torch.cat([*[part for one in scores for part in (nothing, one)][1:], nothing])
    total = each.double().sum()
    score = total / len(tokens) ** lenpen if normalise else total
    empty = torch.empty(0)
    return {"tokens": tokens, "score": score, "attention": empty, "alignment": empty, "positional_scores": each}


def decodes_stepwise(model: nn.Module) -> bool:
    """Return whether the model's decoder decodes token by token, as a ``DocumentDecoder`` does."""
    return callable(getattr(getattr(model, "decoder", None), "begin", None))
