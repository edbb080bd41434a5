"""What a model reads and writes, as words: source, translation and, of a Document Transformer, the context."""

from __future__ import annotations

from collections.abc import Sequence

from gtransformer.lab.analysis.words import Side, side_of
from gtransformer.models.document_transformer import ITSELF, BesideEncoder
from gtransformer.translation.api import GTransformer

BEGIN, END = MARKS = "<s>", "</s>"


def word_sides(model: GTransformer, source: Sequence[Sequence[str]], target: Sequence[str]) -> dict[str, Side]:
    """The sides of ``words.SIDES`` that the model has, with the words of the text, unknown ones, too.

    Args:
        source: sentences of subwords; target: sentences in BPE, subwords separated by blanks.
    """
    sides, start, encoder = {}, len(target) - len(source), model.engine.model.encoder
    if isinstance(encoder, BesideEncoder):
        # As it is read (context.split_context): words without marks, at the end one mark.
        before = source[:-1]
        if not before:  # itself, or nothing
            before, start = (source, 0) if str(encoder.cfg.context_of_first) == ITSELF else ([], None)
        tokens = [(token, number) for number, sentence in enumerate(before) for token in sentence]
        sides["context"] = _side(model, [*tokens, (END, max(0, len(before) - 1))], start)
        source, start = source[-1:], 0
    written = [text.split() for text in target]
    for name, sentences, first in (("source", source, start), ("target", written, 0)):
        tokens = [(token, number) for number, one in enumerate(sentences) for token in (BEGIN, *one, END)]
        sides[name] = _side(model, tokens, first)
    return sides


def _side(model: GTransformer, tokens: Sequence[tuple[str, int]], start: int | None) -> Side:
    symbols, sentences = zip(*tokens, strict=True)
    return side_of(symbols, sentences, MARKS, model.directory.sentencepiece, start)
