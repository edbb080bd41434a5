"""Search over whole documents: as many sentences as the source, each within its own length limits.

What may come next depends on the prefix alone: how many ``</s>`` it holds and how many tokens follow the last ``<s>``.
So the rule is a mask on the next step's log probabilities in front of any of fairseq's search strategies (Bao et al.
2021, section 4.3).
"""

from __future__ import annotations

import torch
from fairseq.search import Search
from torch import Tensor

EXHAUSTED = -1e30  # score of what is no hypothesis


class DocumentSearch(Search):
    """Masks what the sentence structure forbids, then lets ``inner`` (beam search, sampling, ...) choose.

    Args:
        dictionary: target dictionary.
        inner: one of fairseq's search strategies.
        language: index of the language symbol that ends a document.
        forbidden: (n,) int64 indices that never stand inside a sentence: ``<s>``, padding, languages, ``<mask>``.
        min_len: fewest words of a sentence.
    """

    def __init__(self, dictionary, inner: Search, language: int, forbidden: Tensor, min_len: int):
        super().__init__(dictionary)
        self.inner = inner
        self.language, self.min_len = language, min_len
        self.bos = dictionary.bos()
        self.stop_on_max_len = inner.stop_on_max_len
        self.supports_constraints = inner.supports_constraints
        self.needs_src_lengths = getattr(inner, "needs_src_lengths", False)
        self.register_buffer("forbidden", forbidden, persistent=False)
        self.limits: Tensor | None = None
        self.sentences: Tensor | None = None

    def start(self, limits: Tensor, sentences: Tensor) -> None:
        """Begin a batch: limits (batch, most sentences) words for each, sentences (batch,) how many there are."""
        self.limits, self.sentences = limits, sentences

    def step(self, step: int, lprobs: Tensor, scores: Tensor | None, prev_output_tokens=None, original_batch_idxs=None):
        """fairseq's interface: lprobs (batch, beam, vocabulary), prev_output_tokens (batch * beam, step + 1)."""
        batch, beam, _ = lprobs.shape
        flat = lprobs.view(-1, lprobs.shape[-1])
        self.constrain(flat, prev_output_tokens, beam)
        if step > 0:
            # Where candidates are few, fairseq continues rows that have ended already: nothing may come of them.
            ended = prev_output_tokens[:, -1].eq(self.language).view(batch, beam, 1)
            scores = scores.masked_fill(ended, -torch.inf)
        found = self.inner.step(step, flat.view_as(lprobs), scores, prev_output_tokens, original_batch_idxs)
        return self._end_exhausted(*found, beam)

    def _end_exhausted(self, scores: Tensor, tokens: Tensor, beams: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
        """End documents that have no hypothesis left, because the constraint allows fewer than the beam is wide.

        fairseq would wait for more for ever. It gets EXHAUSTED ones, which the generator throws away.
        """
        exhausted = scores.isneginf().all(dim=1, keepdim=True)
        first = torch.arange(scores.shape[1], device=scores.device) < beam  # the others must remain to be continued
        chosen = exhausted & first
        return scores.masked_fill(chosen, EXHAUSTED), tokens.masked_fill(chosen, self.language), beams

    def constrain(self, lprobs: Tensor, prefixes: Tensor, beam: int) -> None:
        """Change lprobs (rows, vocabulary) in place, given prefixes (rows, length) that start with ``<s>``.

        Tokens without a choice (``<s>``, and the language symbol at the end) get log probability 0; a ``</s>`` forced
        by the length limit keeps the model's own. A row that prefix tokens have already settled against the rule
        stays as it is.
        """
        last = prefixes[:, -1]
        done, words = sentence_state(prefixes, self.bos, self.eos)
        sentences = self.sentences.repeat_interleave(beam)
        limits = self.limits.repeat_interleave(beam, dim=0)
        limit = limits.gather(1, done.clamp(max=limits.shape[1] - 1).unsqueeze(1)).squeeze(1)

        between = last.eq(self.eos)
        closing = between & (done >= sentences)
        opening = between & ~closing
        inside = ~between

        original = lprobs.clone()
        end_of_sentence = lprobs[:, self.eos].clone()
        lprobs[inside.unsqueeze(1) & self._forbidden_mask(lprobs)] = -torch.inf
        too_short = inside & (words < self.min_len) & (words < limit)
        lprobs[:, self.eos].masked_fill_(too_short, -torch.inf)
        full = inside & (words >= limit)
        lprobs[between | full] = -torch.inf
        lprobs[:, self.eos] = torch.where(full, end_of_sentence, lprobs[:, self.eos])
        lprobs[:, self.bos].masked_fill_(opening, 0.0)
        lprobs[:, self.language].masked_fill_(closing, 0.0)

        settled = original.isneginf().sum(dim=1).eq(original.shape[1] - 1)  # prefix tokens leave one choice
        lprobs[settled.unsqueeze(1) & original.isneginf()] = -torch.inf
        stuck = lprobs.isneginf().all(dim=1)
        lprobs[stuck] = original[stuck]

    def _forbidden_mask(self, lprobs: Tensor) -> Tensor:
        mask = torch.zeros(lprobs.shape[1], dtype=torch.bool, device=lprobs.device)
        return mask.index_fill(0, self.forbidden.to(lprobs.device), True).unsqueeze(0)

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


def sentence_state(prefixes: Tensor, bos: int, eos: int) -> tuple[Tensor, Tensor]:
    """How many sentences of each prefix are complete, and how many words follow its last ``<s>``.

    Args:
        prefixes: (rows, length) int64, each beginning with ``<s>``.

    Returns:
        two (rows,) int64 tensors.
    """
    length = prefixes.shape[1]
    position = torch.arange(length, device=prefixes.device)
    last_open = position.masked_fill(prefixes.ne(bos), -1).amax(dim=1)
    return prefixes.eq(eos).sum(dim=1), length - 1 - last_open


def sentence_limits(src_tokens: Tensor, bos: int, words: Tensor, a: float, b: float) -> tuple[Tensor, Tensor]:
    """Longest translation of each source sentence: a * (its words) + b.

    Args:
        src_tokens: (batch, length) int64.
        words: (batch, length) bool, True at words (not ``<s>``, ``</s>``, padding or languages).

    Returns:
        limits (batch, most sentences) int64, 0 where there is no sentence; sentences (batch,) int64.
    """
    number = src_tokens.eq(bos).cumsum(dim=1)
    sentences = number[:, -1]
    most = max(1, int(sentences.max()))
    counts = torch.zeros(len(src_tokens), most + 1, dtype=torch.int64, device=src_tokens.device)
    counts.scatter_add_(1, number, words.long())
    limits = (a * counts[:, 1:].double() + b).long()
    real = torch.arange(most, device=src_tokens.device) < sentences.unsqueeze(1)
    return limits.masked_fill(~real, 0), sentences
