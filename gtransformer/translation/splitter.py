"""Sentence splitting with sentencex (rules and abbreviations for many languages)."""

from __future__ import annotations

from gtransformer.data.languages import two_letters


class SentenceSplitter:
    """A splitter of lines of one language into sentences."""

    def __init__(self, lang: str):
        from sentencex import segment

        self.lang, self._segment = two_letters(lang), segment  # mBART's en_XX is en

    def __call__(self, line: str) -> list[str]:
        """Return the sentences of a line, without blanks at their ends; no other character is
        lost.
        """
        sentences = (sentence.strip() for sentence in self._segment(self.lang, line))
        return [sentence for sentence in sentences if sentence]
