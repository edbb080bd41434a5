"""An oracle: fairseq's own SequenceGenerator, whose choices are masked step by step by a generator's rule."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import torch
from fairseq.models import FairseqEncoder, FairseqIncrementalDecoder
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from gtransformer.modules.ragged import Ragged
from gtransformer.search.generator import DocumentGenerator
from gtransformer.search.positions import within_positions


class MaskedSearch(BeamSearch):
    """fairseq's beam search among the tokens that the rule allows, read from every whole prefix again.

    Args:
        generator: whose rule it is.
        limits: (batch, most sentences), words of each sentence; without the rule (batch, 1), tokens of each document.
        sentences: (batch,), how many there are.
    """

    def __init__(self, generator: DocumentGenerator, limits: Tensor, sentences: Tensor):
        super().__init__(generator.tgt_dict)
        self.rule, self.free, self.limits, self.sentences = generator.rule, generator.free, limits, sentences

    def step(self, step: int, lprobs: Tensor, scores: Tensor | None, prev_output_tokens=None, original_batch_idxs=None):
        beam, rule = lprobs.shape[1], self.rule
        prefixes = prev_output_tokens.unflatten(0, (-1, beam)).tolist()
        for document, hypotheses in enumerate(prefixes):
            for hypothesis, prefix in enumerate(hypotheses):
                row = lprobs[document, hypothesis]
                if row.isfinite().sum() > 1:  # else prefix tokens have chosen
                    self.mask(row, prefix, document)
        if step > 0:  # with few candidates, fairseq continues hypotheses that have ended
            ended = prev_output_tokens[:, -1].eq(rule.language).view(-1, beam, 1)
            scores = scores.masked_fill(ended, -torch.inf)
        found, tokens, beams = super().step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)
        none = found.isneginf().all(dim=1, keepdim=True) & (torch.arange(found.shape[1]) < beam)
        return found.masked_fill(none, -1e30), tokens.masked_fill(none, rule.language), beams  # else it waits for ever

    def mask(self, row: Tensor, prefix: list[int], document: int) -> None:
        """Leave what may follow ``prefix``, at its score; what has no alternative costs nothing."""
        rule, limits = self.rule, self.limits[document].tolist()
        if self.free:
            if len(prefix) > limits[0]:
                row[torch.arange(len(row)) != rule.language] = -torch.inf
            return
        complete, words = prefix.count(rule.eos), prefix[::-1].index(rule.bos)
        if prefix[-1] == rule.eos or (rule.prefix is not None and prefix[-1] == rule.bos):
            more = rule.bos if complete < self.sentences[document] else rule.language
            row[:] = -torch.inf
            row[more if prefix[-1] == rule.eos else rule.prefix] = 0.0
            return
        words -= rule.prefix is not None
        end = row[rule.eos].clone()
        row[rule.forbidden] = -torch.inf
        full = words >= limits[min(complete, len(limits) - 1)]
        if full:
            row[:] = -torch.inf
        if full or words < rule.min_len:
            row[rule.eos] = end if full else -torch.inf

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        self.limits, self.sentences = self.limits[batch_idxs], self.sentences[batch_idxs]


def prefix_layout(layout: Callable, tokens: Tensor) -> Ragged:
    """The layout of targets whose lengths are not known yet."""
    found = layout(tokens)
    found.whole = False
    return found


@torch.no_grad()
def fairseqs_loop(generator: DocumentGenerator, sample: dict, prefix_tokens: Tensor | None = None) -> list[list[dict]]:
    """What fairseq's loop finds for a batch under a generator's rule, limits and scores."""
    for model in generator.models:
        for side, base in ((model.encoder, FairseqEncoder), (model.decoder, FairseqIncrementalDecoder)):
            if not isinstance(side, base):  # what fairseq calls, behind what the side has of its own
                side.__class__ = type(type(side).__name__, (type(side), base), {})
    tokens, scoring = sample["net_input"]["src_tokens"], generator.scoring
    words = generator._words(tokens)
    limits, sentences = generator._limits(tokens, words)
    limits = within_positions(limits, sentences, generator.positions, generator.given)
    total = int((limits.sum(dim=1) + generator.given * sentences).max())
    if generator.free:
        limits = generator._document_limits(limits, sentences, words).unsqueeze(1)
        total = int(limits.max())
    total += 0 if prefix_tokens is None else prefix_tokens.shape[1]
    loop = SequenceGenerator(
        generator.models,
        generator.tgt_dict,
        beam_size=scoring.beam,
        max_len_b=total,
        max_len=total + 1,
        normalize_scores=scoring.normalise,
        len_penalty=scoring.lenpen,
        unk_penalty=scoring.unkpen,
        temperature=scoring.temperature,
        eos=generator.rule.language,
        search_strategy=MaskedSearch(generator, limits, sentences),
    )
    with ExitStack() as patches:
        for model in generator.models:
            patches.enter_context(patch.object(model.decoder, "layout", partial(prefix_layout, model.decoder.layout)))
        found = loop.generate(generator.models, sample, prefix_tokens=prefix_tokens, bos_token=generator.tgt_dict.bos())
    return [[one for one in nbest if one["score"] > -1e20] for nbest in found]
