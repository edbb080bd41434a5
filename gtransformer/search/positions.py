"""Translations that fit a model with a limited number of positions (mBART, BERT as the encoder)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gtransformer.errors import UserError


def longest_sentence(model: nn.Module) -> int:
    """Return the most tokens of a sentence, ``<s>`` and ``</s>`` counted, that both sides have
    positions for.

    They are fewer than a document may have if positions restart at each sentence.
    """
    return min(model.encoder.sentence_positions(), model.decoder.sentence_positions())


def longest_source(model: nn.Module) -> int:
    """Return the most tokens of a source, ``<s>`` and ``</s>`` counted, that an encoder-decoder can
    surely translate.

    The source must fit the encoder's positions. The decoder reads at least ``<s>``, a word and
    ``</s>`` of every
    sentence, not more than the source has: so ``within_positions`` finds limits that fit.
    """
    return min(model.encoder.positions(), model.decoder.positions())


def within_positions(
    limits: Tensor, sentences: Tensor, positions: int | Tensor, given: int = 2
) -> Tensor:
    """Reduce sentence limits so that no document can exceed the model's positions.

    The decoder reads ``<s>``, words and ``</s>`` of every sentence. If the limits allow more than
    ``positions``, those of the document are reduced in proportion, to at least one word.

    Args:
        limits: (batch, most sentences) int64, words; 0 if there is no such sentence.
        sentences: (batch,) int64.
        positions: of the model; (batch,) int64: those left after each forced prefix.
        given: tokens of a sentence that are no words of its limit: ``<s>``, ``</s>``, and the
            rule's ``prefix``.

    Raises UserError for a document that does not fit even with one word a sentence.
    """
    # What words may fill after the marks that every sentence has.
    free = positions - given * sentences
    wanted = limits.sum(dim=1)
    if (wanted <= free).all():
        return limits
    crowded = (free < sentences).nonzero().flatten()
    if len(crowded):
        left = int(torch.as_tensor(positions).expand(len(sentences))[crowded[0]])
        raise UserError(
            f"{int(sentences[crowded[0]])} sentences do not fit the {left} positions that the "
            "model has for them: prepare with a smaller --max-instance-tokens, or give a smaller "
            "--context-sentences or --window-tokens"
        )
    # One word for each, the rest in proportion: rounded down, the sum stays within the limit.
    real = limits.gt(0)
    spare = (limits - 1).clamp(min=0)
    share = (free - sentences).double() / spare.sum(dim=1).clamp(min=1)
    shrunk = (spare * share.clamp(max=1.0).unsqueeze(1)).long() + real.long()
    return shrunk.where((wanted > free).unsqueeze(1), limits)
