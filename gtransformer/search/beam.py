"""Beam search over a batch of documents; finished documents leave it.

It finds what fairseq's ``SequenceGenerator`` finds under the same rule (a test compares them), at
less cost. Tokens without an alternative need no logits. Log probabilities are stored only for
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.modules.kernels import largest, log_probabilities, rows_at_once
from gtransformer.search.rules import SentenceRule, SentenceState

if TYPE_CHECKING:
    from gtransformer.models.common.decoding.state import CachedState


@dataclass(frozen=True)
class Scoring:
    """The width of the search and the scores of hypotheses.

    A hypothesis of n tokens after the given one has the score sum / n ** lenpen, or the sum without
    ``normalise``; ``unkpen`` is subtracted from the log probability of ``unk``.

    With ``sampling`` every word is drawn at random from the ``sampling`` most probable ones by
    their probabilities (0: from all), never ``unk``; ``beam`` is then 1. What is drawn depends on
    ``seed`` and on the batch.
    """

    beam: int
    unk: int
    lenpen: float = 1.0
    unkpen: float = 0.0
    temperature: float = 1.0
    normalise: bool = True
    sampling: int | None = None
    seed: int = 1

    def hypothesis(self, tokens: Sequence[int], scores: np.ndarray) -> dict[str, Tensor]:
        """Return fairseq's hypothesis of tokens with their log probabilities, (n,) float64."""
        score = scores.sum() / len(tokens) ** self.lenpen if self.normalise else scores.sum()
        return {
            "tokens": torch.from_numpy(np.array(tokens)),
            "score": torch.tensor(score, dtype=torch.float32),
            "attention": torch.empty(0),
            "alignment": torch.empty(0),
            "positional_scores": torch.from_numpy(scores.astype(np.float32)),
        }


def best_words(
    rule: SentenceRule,
    scoring: Scoring,
    states: Sequence[CachedState],
    features: Callable[[], Sequence[Tensor]],
    short: np.ndarray,
    full: np.ndarray,
    captures: bool = False,
    random: torch.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return log probability and index of the 2 * beam best words after each hypothesis, best
    first.

    With sampling it is one word, drawn.

    Args:
        rule: the sentence rule.
        scoring: how words are scored.
        states: of each model.
        features: returns of each model the top states of the hypotheses' last tokens, (hypotheses,
            channels).
        short, full: (hypotheses,) bool, whether the sentence may not end yet, or must end.
        captures: whether the plan captures these operations.
        random: for sampling.

    Raises UserError for log probabilities that are not numbers.
    """
    plan, vocabulary = states[0].plan, states[0].vocabulary
    forbidden, too_short = plan.put(rule.forbidden), plan.put(short)
    plan.depends_on(scoring, rule.end)
    for state in states:
        state.plan.send()
    # At most ``beam`` of these end the document, so at least ``beam`` go on.
    number = 2 * scoring.beam if scoring.sampling is None else scoring.sampling or vocabulary
    number = min(number, vocabulary)

    def scored() -> Tensor:
        given, found = features(), []
        # Logits of all hypotheses at once would be the largest tensor of the search.
        rows = rows_at_once(given[0], vocabulary)
        for part in [slice(first, first + rows) for first in range(0, max(1, len(short)), rows)]:
            lprobs = ensemble_probabilities(scoring, states, [x[part] for x in given])
            ends = lprobs[:, rule.end].clone()
            lprobs.index_fill_(1, forbidden, -torch.inf)
            lprobs[:, rule.end].masked_fill_(too_short[part], -torch.inf)
            if scoring.sampling is not None:
                lprobs[:, scoring.unk] = -torch.inf  # no text
            best, index = largest(lprobs, number)
            if scoring.sampling is not None:
                drawn = torch.multinomial(best.softmax(dim=1), 1, generator=random)
                best, index = best.gather(1, drawn), index.gather(1, drawn)
            found.append(torch.cat([best.double(), index.double(), ends.double()[:, None]], dim=1))
        return torch.cat(found)

    # The step's only wait for a GPU.
    found = (plan.run(scored) if captures else scored()).cpu().numpy().copy()
    if np.isnan(found).any():
        raise UserError(
            "the model's log probabilities are not numbers: its weights or its precision are at "
            "fault"
        )
    middle = found.shape[1] // 2
    best, index, ends = found[:, :middle], found[:, middle:-1], found[:, -1:]
    # A </s> that must follow keeps the model's own score.
    best[full] = -np.inf
    best[full, :1], index[full, 0] = ends[full], rule.end
    return best, index.astype(np.int64)


def ensemble_probabilities(
    scoring: Scoring, states: Sequence[CachedState], features: Sequence[Tensor]
) -> Tensor:
    """Return the mean of the models' probabilities, as fairseq, as logarithms (n, words)."""
    scores = []
    for state, x in zip(states, features, strict=True):
        logits = state.logits(x)
        if scoring.temperature != 1.0:
            logits = logits / scoring.temperature
        scores.append(log_probabilities(logits))
    lprobs = scores[0]
    if len(scores) > 1:
        lprobs = torch.stack(scores).logsumexp(dim=0) - np.log(len(scores))
    if scoring.unkpen:
        lprobs[:, scoring.unk] -= scoring.unkpen
    return lprobs


class BeamSearch:
    """Search over a batch of encoded documents with one model or several.

    Args:
        rule: the sentence rule.
        scoring: how hypotheses are scored.
        states: of each model, what hypotheses begin with; each search has ``scoring.beam`` of them.
        limits: (searches, most sentences) int64, longest translation of each sentence in words.
        sentences: (searches,) int64, how many there are, those that a hypothesis begins with
            included.
        start: the state of what each search has read; by default ``<s>``. Hypotheses are what
            follows.
        random: for sampling.
    """

    def __init__(
        self,
        rule: SentenceRule,
        scoring: Scoring,
        states: Sequence[CachedState],
        limits: np.ndarray,
        sentences: np.ndarray,
        start: SentenceState | None = None,
        random: torch.Generator | None = None,
    ):
        self.rule, self.scoring, self.beam, self.random = rule, scoring, scoring.beam, random
        self.states = states
        self.limits, self.sentences = limits, sentences[:, None]
        self.active = np.arange(len(limits))  # numbers of the searches that go on
        self.finished: list[list[dict]] = [[] for _ in self.active]
        self.prefixes = start or rule.start(len(limits), self.beam)
        # Sums of log probabilities, (searches that go on, beam).
        self.sums = np.full((len(limits), self.beam), -np.inf)
        self.sums[:, 0] = 0.0  # of equal hypotheses only the first counts
        # Of each step three arrays (hypotheses,): the row that each continues, its token, its sum.
        self.history: list[tuple[np.ndarray, ...]] = []

    def run(self) -> list[list[dict]]:
        """Return fairseq's hypotheses of every document, best first.

        Raises UserError for a document of which every translation has the probability 0.
        """
        while len(self.active):
            self._step()
        return self.finished

    def _step(self) -> None:
        rule, prefixes, width = self.rule, self.prefixes, 2 * self.beam
        between = rule.between(prefixes)
        forced = rule.without_choice(prefixes, self.sentences[self.active])
        alive = np.isfinite(self.sums)
        # (documents, beam, 2 * beam) candidates: each hypothesis's best words, or the one token
        # without an alternative.
        values = np.full((*between.shape, width), -np.inf)
        tokens = np.full(values.shape, rule.eos)
        if (alive & ~(between & (forced == rule.language))).any():
            for state in self.states:
                state.advance(prefixes.newest, rule.tags(prefixes))
            inside = np.flatnonzero(~between & alive)
            found, words = self._best_words(inside)
            values.reshape(-1, width)[inside, : found.shape[1]] = found
            tokens.reshape(-1, width)[inside, : found.shape[1]] = words
        values[between, 0] = 0.0
        tokens[between, 0] = forced[between]
        # A candidate is a hypothesis with one more token.
        values += self.sums[..., None]
        self._choose(values.reshape(len(values), -1), tokens.reshape(len(values), -1))

    def _best_words(self, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``best_words`` of these hypotheses, (n,) int64, whose step is planned."""
        rule, plan = self.rule, self.states[0].plan
        bounds = rule.length_bounds(self.prefixes, self.limits[self.active])
        scored = inside
        if plan.fixed:
            # A captured step scores all hypotheses, so that it is the same whichever are inside.
            scored = np.arange(len(self.states[0].prefixes.order)) % self.prefixes.newest.size
        short, full = (which.ravel()[scored] for which in bounds)
        rows = plan.put(scored)

        def features() -> list[Tensor]:
            return [state.compute().index_select(0, rows) for state in self.states]

        found, words = best_words(
            rule,
            self.scoring,
            self.states,
            features,
            short,
            full,
            len(self.states) == 1 and self.random is None,
            self.random,
        )
        return (found[inside], words[inside]) if plan.fixed else (found, words)

    def _choose(self, values: np.ndarray, tokens: np.ndarray) -> None:
        """Continue the best candidates (documents, beam * 2 * beam) and store hypotheses that have
        ended.
        """
        beam = self.beam
        order = np.argsort(-values, axis=1, kind="stable")[:, : 2 * beam]
        slots = np.arange(len(order))[:, None]
        values, tokens, parents = values[slots, order], tokens[slots, order], order // (2 * beam)
        ends = (tokens == self.rule.language) & np.isfinite(values)
        # Hypotheses that end below the first ``beam`` ranks are lost; the best of the others
        # continue.
        continuing = np.argsort(ends, axis=1, kind="stable")[:, :beam]
        remains = np.isfinite(values[slots, continuing]).any(axis=1)
        ending, ranks = np.nonzero(ends[:, :beam])
        if len(ending):
            rows = ending * beam + parents[ending, ranks]
            found = self._hypotheses(rows, values[ending, ranks])
            for slot, hypothesis in zip(ending.tolist(), found, strict=True):
                self.finished[self.active[slot]].append(hypothesis)
        remains &= np.array([len(self.finished[number]) < beam for number in self.active])
        for number in self.active[~remains].tolist():
            self._finish(number)
        # Finished documents leave the batch.
        slots, continuing = slots[remains], continuing[remains]
        values, tokens, parents = (one[slots, continuing] for one in (values, tokens, parents))
        rows = (slots * beam + parents).ravel()
        for state in self.states:
            state.reorder(rows)
        self.active, self.sums = self.active[remains], values
        self.prefixes = self.rule.advance(self.prefixes.select((slots, parents)), tokens)
        self.history.append((rows, tokens.ravel(), values.ravel()))

    def _hypotheses(self, rows: np.ndarray, scores: np.ndarray) -> list[dict]:
        """Return the hypotheses that end here after those in ``rows``, with the sums ``scores``."""
        tokens, sums = [np.full(len(rows), self.rule.language)], [scores]
        for parents, words, before in reversed(self.history):
            tokens.append(words[rows])
            sums.append(before[rows])
            rows = parents[rows]
        tokens, sums = (np.stack(one[::-1], axis=1) for one in (tokens, sums))
        each = np.diff(sums, axis=1, prepend=0.0)
        return [self.scoring.hypothesis(*one) for one in zip(tokens, each, strict=True)]

    def _finish(self, number: int) -> None:
        """Sort a document's hypotheses and pass the best to the models: other documents of its
        batch may read it.
        """
        if not self.finished[number]:
            raise UserError(
                "the model gives no translation to a document; its parameters may be damaged"
            )
        del self.finished[number][self.beam :]
        self.finished[number].sort(key=lambda hypothesis: -hypothesis["score"].item())
        for state in self.states:
            state.finish(number, self.finished[number][0]["tokens"][:-1])


def joined(
    sentences: Sequence[np.ndarray],
    scores: Sequence[np.ndarray],
    rule: SentenceRule,
    scoring: Scoring,
) -> dict[str, Tensor]:
    """Return fairseq's hypothesis of a document from its sentences, ``words </s>`` each, and their
    tokens' scores.

    ``<s>`` and the language symbol cost nothing.
    """
    tokens = [token for one in sentences for token in (rule.bos, *one)]
    each = [score for one in scores for score in (0.0, *one)]
    return scoring.hypothesis([*tokens[1:], rule.language], np.array([*each[1:], 0.0]))
