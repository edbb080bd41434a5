"""What a model reads and writes, as words: source, translation and, of a Document Transformer, the context."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from fairseq.data import Dictionary

from gtransformer.analysis.words import Side, side_of
from gtransformer.models.document_transformer.config import ITSELF
from gtransformer.models.document_transformer.context import BesideEncoder, split_context
from gtransformer.translation.api import GTransformer


def word_sides(model: GTransformer, source: Sequence[int], target: Sequence[int]) -> dict[str, Side]:
    """The sides of ``words.SIDES`` that the model has.

    Args:
        source, target: ``<s> a b </s> <s> c </s>`` as indices, what encoder and decoder read.
    """
    sides, encoder = {}, model.engine.model.encoder
    if isinstance(encoder, BesideEncoder):
        itself = str(encoder.cfg.context_of_first) == ITSELF
        current, context, tags = split_context(
            torch.tensor([source]), encoder.bos, encoder.eos, encoder.padding, itself
        )
        source = current[0].tolist()
        sides["context"] = _side(model, model.engine.source, context[0].tolist(), (tags[0] - 1).tolist())
    for name, dictionary, tokens in (("source", model.engine.source, source), ("target", model.engine.target, target)):
        begins = torch.tensor(tokens).eq(dictionary.bos())
        sides[name] = _side(model, dictionary, tokens, (begins.cumsum(0) - 1).clamp(min=0).tolist())
    return sides


def _side(model: GTransformer, dictionary: Dictionary, tokens: Sequence[int], sentences: Sequence[int]) -> Side:
    marks = [dictionary[dictionary.bos()], dictionary[dictionary.eos()]]
    return side_of([dictionary[token] for token in tokens], sentences, marks, model.directory.sentencepiece)
