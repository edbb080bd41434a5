"""The sentence rule (rules.py) as one of fairseq's searches: for its loop, and any of its strategies.

The state of a prefix can be read off it, so the rule is a mask on the next step's log probabilities in front of the
strategy.
"""

from __future__ import annotations

import torch
from fairseq.data import Dictionary
from fairseq.search import Search
from torch import Tensor

from gtransformer.search.rules import SentenceRule

EXHAUSTED = -1e30  # score of what is no hypothesis


class DocumentSearch(Search):
    """Masks what the sentence structure forbids, then lets ``inner`` (beam search, sampling, ...) choose.

    Made for one batch: it forgets the documents that fairseq's loop has finished.

    Args:
        dictionary: target dictionary.
        inner: one of fairseq's search strategies.
        rule: what a document may look like.
        limits: (batch, most sentences) int64, most words of each sentence.
        sentences: (batch,) int64, how many there are.
    """

    def __init__(self, dictionary: Dictionary, inner: Search, rule: SentenceRule, limits: Tensor, sentences: Tensor):
        super().__init__(dictionary)
        self.inner, self.rule = inner, rule.on(limits.device)
        self.limits, self.sentences = limits, sentences
        self.stop_on_max_len = inner.stop_on_max_len
        self.supports_constraints = inner.supports_constraints
        self.needs_src_lengths = getattr(inner, "needs_src_lengths", False)

    def step(self, step: int, lprobs: Tensor, scores: Tensor | None, prev_output_tokens=None, original_batch_idxs=None):
        """fairseq's interface: lprobs (batch, beam, vocabulary), prev_output_tokens (batch * beam, step + 1)."""
        beam = lprobs.shape[1]
        self.constrain(lprobs, prev_output_tokens.unflatten(0, (-1, beam)))
        if step > 0:
            # Where candidates are few, fairseq continues rows that have ended already: nothing may come of them.
            ended = prev_output_tokens[:, -1].eq(self.rule.language).view(-1, beam, 1)
            scores = scores.masked_fill(ended, -torch.inf)
        found = self.inner.step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)
        return self._end_exhausted(*found, beam)

    def _end_exhausted(self, scores: Tensor, tokens: Tensor, beams: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
        """End documents that have no hypothesis left, because the constraint allows fewer than the beam is wide.

        fairseq would wait for more for ever. It gets EXHAUSTED ones, which the generator throws away.
        """
        exhausted = scores.isneginf().all(dim=1, keepdim=True)
        first = torch.arange(scores.shape[1], device=scores.device) < beam  # the others must remain to be continued
        chosen = exhausted & first
        return scores.masked_fill(chosen, EXHAUSTED), tokens.masked_fill(chosen, self.rule.language), beams

    def constrain(self, lprobs: Tensor, prefixes: Tensor) -> None:
        """Change lprobs (batch, beam, vocabulary) in place, given prefixes (batch, beam, length) that start with <s>.

        A row that prefix tokens have already settled against the rule stays as it is.
        """
        rule, state = self.rule, self.rule.read(prefixes)
        lprobs = lprobs.view(-1, lprobs.shape[-1])
        original = lprobs.clone()
        between = rule.between(state)
        short, full = rule.room(state, self.limits)
        rule.restrict(lprobs, rows_of(short & ~between), rows_of(full & ~between))
        forced = rows_of(between)
        lprobs[forced] = -torch.inf
        lprobs[forced, rule.without_choice(state, self.sentences.unsqueeze(1))[between]] = 0.0

        settled = original.isneginf().sum(dim=1).eq(original.shape[1] - 1)  # prefix tokens leave one choice
        lprobs[settled.unsqueeze(1) & original.isneginf()] = -torch.inf
        stuck = lprobs.isneginf().all(dim=1)
        lprobs[stuck] = original[stuck]

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        """Only these documents of the batch go on (called by the generator)."""
        self.limits, self.sentences = self.limits[batch_idxs], self.sentences[batch_idxs]
        self.inner.prune_sentences(batch_idxs)

    def set_src_lengths(self, src_lengths: Tensor) -> None:
        """Passed on to the inner search."""
        self.inner.set_src_lengths(src_lengths)

    def init_constraints(self, batch_constraints: Tensor | None, beam_size: int) -> None:
        """Passed on to the inner search."""
        self.inner.init_constraints(batch_constraints, beam_size)

    def update_constraints(self, active_hypos: Tensor) -> None:
        """Passed on to the inner search."""
        self.inner.update_constraints(active_hypos)


def rows_of(chosen: Tensor) -> Tensor:
    """(batch, beam) bool -> int64 indices of the chosen among the batch * beam rows."""
    return chosen.flatten().nonzero().flatten()
