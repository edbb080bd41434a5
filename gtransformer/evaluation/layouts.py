"""How a model writes a document as one sequence of tokens, and which tokens belong to which sentence.

* ``document_layout``: this package's models, ``<s> a b </s> <s> c </s>``; the decoder starts from the first ``<s>``.
* ``marked_layout``: the same text as fairseq's own ``translation`` task sees it in a prepared corpus: a second ``</s>``
  at the end, and the decoder starts from ``</s>``.
* ``joined_layout``: fairseq's ``transformer`` on sentences joined by a separator, ``a b <sep> c </s>``.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairseq.data import Dictionary

from gtransformer.errors import UserError

TokenLists = list[list[int]]


@dataclass(frozen=True)
class Layout:
    """Tokens around sentences; all are indices of one dictionary, None where nothing stands.

    ``opening`` comes before each sentence and is not part of it, being no choice of the model's (``search.rules``);
    ``between`` ends each sentence but the document's last, ``closing`` the last, and both count as theirs; ``final``
    follows the source document; ``first`` is what the decoder reads before the document, where it does not start from
    the document's own first token.
    """

    opening: int | None
    between: int | None
    closing: int
    final: int | None
    first: int | None

    def source(self, sentences: TokenLists) -> list[int]:
        """The encoder's input."""
        tokens, _ = self._document(sentences, len(sentences))
        return tokens if self.final is None else [*tokens, self.final]

    def target(self, sentences: TokenLists, of: int) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """The decoder's input, its goal, and per sentence the span (first, one past the last) of its own goal tokens.

        ``sentences`` may be the beginning of a document ``of`` so many sentences: then its last one ends in what
        stands between sentences. Where the decoder starts from the document's own first token it reads the whole
        document, as in training: the last token has no goal among these, but counts where windows lie by the length.
        """
        tokens, spans = self._document(sentences, of)
        if self.first is not None:
            return [self.first, *tokens[:-1]], tokens, spans
        return tokens, tokens[1:], [(start - 1, end - 1) for start, end in spans]

    def _document(self, sentences: TokenLists, of: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Tokens, and the spans of each sentence's own among them."""
        tokens: list[int] = []
        spans = []
        for number, sentence in enumerate(sentences, 1):
            if self.opening is not None:
                tokens.append(self.opening)
            start = len(tokens)
            tokens += sentence
            end = self.closing if number >= of else self.between
            if end is not None:
                tokens.append(end)
            spans.append((start, len(tokens)))
        return tokens, spans


def document_layout(dictionary: Dictionary) -> Layout:
    """The layout of this package's models."""
    return Layout(dictionary.bos(), dictionary.eos(), dictionary.eos(), None, None)


def marked_layout(dictionary: Dictionary) -> Layout:
    """The layout of a model that fairseq's ``translation`` task trained on a prepared corpus."""
    return Layout(dictionary.bos(), dictionary.eos(), dictionary.eos(), dictionary.eos(), dictionary.eos())


def joined_layout(dictionary: Dictionary, separator: str) -> Layout:
    """The layout of a model trained on sentences joined by ``separator``, or by nothing if that is empty.

    Raises UserError if the dictionary lacks the separator.
    """
    between = dictionary.index(separator) if separator else None
    if between is not None and between == dictionary.unk():
        raise UserError(
            f"the dictionary has no symbol {separator!r}; give as --separator what stood between sentences in training"
        )
    return Layout(None, between, dictionary.eos(), None, dictionary.eos())
