"""What a model reads and writes, as words: source, translation and, of a Document Transformer, the context."""

from __future__ import annotations

from collections.abc import Sequence

from gtransformer.analysis.words import Side, side_of
from gtransformer.models.document_transformer.config import ITSELF
from gtransformer.models.document_transformer.context import BesideEncoder
from gtransformer.translation.api import GTransformer

BEGIN, END = MARKS = "<s>", "</s>"


def word_sides(model: GTransformer, source: Sequence[Sequence[str]], target: Sequence[str]) -> dict[str, Side]:
    """The sides of ``words.SIDES`` that the model has, with the words of the text, unknown ones, too.

    Args:
        source: sentences of subwords; target: sentences in BPE, subwords separated by blanks.
    """
    sides, encoder = {}, model.engine.model.encoder
    if isinstance(encoder, BesideEncoder):
        # As it is read (context.split_context): words without marks, at the end one mark.
        before = source[:-1] or (source if str(encoder.cfg.context_of_first) == ITSELF else [])
        tokens = [(token, number) for number, sentence in enumerate(before) for token in sentence]
        sides["context"] = _side(model, [*tokens, (END, max(0, len(before) - 1))])
        source = source[-1:]
    for name, sentences in (("source", source), ("target", [text.split() for text in target])):
        tokens = [(token, number) for number, one in enumerate(sentences) for token in (BEGIN, *one, END)]
        sides[name] = _side(model, tokens)
    return sides


def _side(model: GTransformer, tokens: Sequence[tuple[str, int]]) -> Side:
    symbols, sentences = zip(*tokens, strict=True)
    return side_of(symbols, sentences, MARKS, model.directory.sentencepiece)
