"""Sentence splitting with sentencex (rules and abbreviations for many languages)."""

from __future__ import annotations

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError


class SentenceSplitter:
    """A splitter of lines of one language into sentences. Raises UserError if sentencex is not installed."""

    def __init__(self, lang: str):
        try:
            from sentencex import segment
        except ImportError:
            raise UserError("--split-sentences needs sentencex: pip install 'sentencex>=0.6.1,<0.7'") from None
        self.lang, self._segment = two_letters(lang), segment  # mBART's en_XX is en

    def __call__(self, line: str) -> list[str]:
        """Return the sentences of a line, without blanks at their ends; no other character is lost."""
        sentences = (sentence.strip() for sentence in self._segment(self.lang, line))
        return [sentence for sentence in sentences if sentence]
