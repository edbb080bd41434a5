"""Translations that fit a model with a limited number of positions (mBART, BERT as the encoder)."""

from __future__ import annotations

from torch import Tensor, nn

from gtransformer.errors import UserError


def available(side: nn.Module) -> int:
    """Return how many positions an encoder or decoder has.

    Its ``positions()``, if there is one, returns the real number. Sinusoidal positions have no end;
    ``--max-target-positions`` only chose training data. Otherwise fairseq's ``max_positions()`` is used.
    """
    positions = getattr(side, "positions", None)
    return positions() if callable(positions) else side.max_positions()


def sentence_position_limits(model: nn.Module) -> tuple[int, int]:
    """Return the most tokens of a sentence, ``<s>`` and ``</s>`` counted, that encoder and decoder have positions for.

    They are fewer than a document may have if positions restart at each sentence.
    """
    source, target = (
        side.sentence_positions() if hasattr(side, "sentence_positions") else available(side)
        for side in (model.encoder, model.decoder)
    )
    return source, target


def longest_sentence(model: nn.Module) -> int:
    """Return the most tokens of a sentence that both sides of a model have positions for."""
    return min(sentence_position_limits(model))


def longest_source(model: nn.Module) -> int:
    """Return the most tokens of a source, ``<s>`` and ``</s>`` counted, that an encoder-decoder can surely translate.

    The source must fit the encoder's positions. The decoder reads at least ``<s>``, a word and ``</s>`` of every
    sentence, not more than the source has: so ``within_positions`` finds limits that fit.
    """
    return min(available(model.encoder), available(model.decoder))


def within_positions(limits: Tensor, sentences: Tensor, positions: int | Tensor, given: int = 2) -> Tensor:
    """Reduce sentence limits so that no document can exceed the model's positions.

    The decoder reads ``<s>``, words and ``</s>`` of every sentence. If the limits allow more than ``positions``, those
    of the document are reduced in proportion, to at least one word.

    Args:
        limits: (batch, most sentences) int64, words; 0 if there is no such sentence.
        sentences: (batch,) int64.
        positions: of the model; (batch,) int64: those left after each forced prefix.
        given: tokens of a sentence that are no words of its limit: ``<s>``, ``</s>``, and the rule's ``prefix``.

    Raises UserError for a document that does not fit even with one word a sentence.
    """
    free = positions - given * sentences
    wanted = limits.sum(dim=1)
    if bool((wanted <= free).all()):
        return limits
    crowded = (free < sentences).nonzero().flatten()
    if len(crowded) and isinstance(positions, Tensor):
        raise UserError(
            f"{int(positions[crowded[0]])} of the model's positions are left after the translations of the "
            f"context, too few for {int(sentences[crowded[0]])} sentences: give a smaller --window-tokens or less "
            "context"
        )
    if len(crowded):
        raise UserError(
            f"a document of {int(sentences[crowded[0]])} sentences does not fit the model's {positions} positions: "
            "prepare it with a smaller --max-instance-tokens"
        )
    # One word for each, the rest in proportion: rounded down, the sum stays within the limit.
    real = limits.gt(0)
    spare = (limits - 1).clamp(min=0)
    share = (free - sentences).double() / spare.sum(dim=1).clamp(min=1)
    shrunk = (spare * share.clamp(max=1.0).unsqueeze(1)).long() + real.long()
    return shrunk.where((wanted > free).unsqueeze(1), limits)
