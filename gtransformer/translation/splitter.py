"""Sentence splitting with sentencex (rules and abbreviations for many languages)."""

from __future__ import annotations

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError

LONGEST = 10_000  # characters given to sentencex at a time; its time grows with the square of them


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
        sentences: list[str] = []
        rest, size = line, LONGEST
        while len(rest) > size:
            found = self._sentences(rest[:size])
            if len(found) == 1:  # a single sentence that long, or longer
                size *= 2
                continue
            done = found[:-1]  # the last one may continue after the limit
            sentences += done
            rest, size = rest[sum(map(len, done)) :], LONGEST
        sentences += self._sentences(rest)
        return [text for sentence in sentences if (text := sentence.strip())]

    def _sentences(self, text: str) -> list[str]:
        """Return pieces whose concatenation is ``text``: sentencex drops some blanks between sentences."""
        pieces: list[str] = []
        position = 0
        for sentence in self._segment(self.lang, text):
            core = sentence.strip()
            if not core:
                continue
            begin = text.find(core, position)
            if begin < 0:  # sentencex changed the text: keep the rest as one sentence
                break
            end = begin + len(core)
            pieces.append(text[position:end])
            position = end
        if position < len(text):
            if pieces and not text[position:].strip():
                pieces[-1] += text[position:]
            else:
                pieces.append(text[position:])
        return pieces
