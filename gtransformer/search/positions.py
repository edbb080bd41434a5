"""Translations that fit a model with a limited number of positions (mBART, BERT as the encoder)."""

from __future__ import annotations

from torch import Tensor, nn

from gtransformer.errors import UserError


def available(side: nn.Module) -> int:
    """How many positions an encoder or decoder has.

    One that has ``positions()`` tells how many it really has: sinusoidal ones have no end, whatever
    ``--max-target-positions`` they were trained with, which only chose training data. Of others fairseq's
    ``max_positions()`` is all that is known.
    """
    positions = getattr(side, "positions", None)
    return positions() if callable(positions) else side.max_positions()


def sentence_position_limits(model: nn.Module) -> tuple[int, int]:
    """Most tokens of a sentence, ``<s>`` and ``</s>`` counted, that encoder and decoder have positions for.

    Less than a document may have where positions restart at each sentence.
    """
    source, target = (
        side.sentence_positions() if hasattr(side, "sentence_positions") else available(side)
        for side in (model.encoder, model.decoder)
    )
    return source, target


def longest_sentence(model: nn.Module) -> int:
    """Most tokens of a sentence that both sides of a model have positions for."""
    return min(sentence_position_limits(model))


def longest_source(model: nn.Module) -> int:
    """Most tokens of a source, ``<s>`` and ``</s>`` counted, that an encoder-decoder surely translates.

    The source must fit the encoder's positions. The decoder reads at least ``<s>``, a word and ``</s>`` of every
    sentence, which are no more than its source has: then ``within_positions`` finds room.
    """
    return min(available(model.encoder), available(model.decoder))


def within_positions(limits: Tensor, sentences: Tensor, positions: int | Tensor) -> Tensor:
    """Sentence limits that no document can exceed the model's positions with.

    The decoder reads ``<s>``, words and ``</s>`` of every sentence. Where the limits allow more than ``positions``,
    those of the document are made smaller in proportion, to no less than one word.

    Args:
        limits: (batch, most sentences) int64, words; 0 where there is no sentence.
        sentences: (batch,) int64.
        positions: of the model; (batch,) int64: those that are left behind what each translation begins with.

    Raises UserError for a document that does not fit with one word a sentence either.
    """
    room = positions - 2 * sentences
    wanted = limits.sum(dim=1)
    if bool((wanted <= room).all()):
        return limits
    crowded = (room < sentences).nonzero().flatten()
    if len(crowded) and isinstance(positions, Tensor):
        raise UserError(
            f"{int(positions[crowded[0]])} of the model's positions are left behind the translations that are there "
            f"already, too few for {int(sentences[crowded[0]])} sentences: give a smaller --window-tokens or less "
            "context"
        )
    if len(crowded):
        raise UserError(
            f"a document of {int(sentences[crowded[0]])} sentences does not fit the model's {positions} positions: "
            "prepare it with a smaller --max-instance-tokens"
        )
    # One word for each, the rest in proportion: rounding down, the sum stays within the room.
    real = limits.gt(0)
    spare = (limits - 1).clamp(min=0)
    share = (room - sentences).double() / spare.sum(dim=1).clamp(min=1)
    shrunk = (spare * share.clamp(max=1.0).unsqueeze(1)).long() + real.long()
    return shrunk.where((wanted > room).unsqueeze(1), limits)
