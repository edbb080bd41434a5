"""Running text into sentences, with sentencex (rules and abbreviations for many languages)."""

from __future__ import annotations

from gtransformer.errors import UserError

LONGEST = 10_000  # characters given to sentencex at a time; its time grows with the square of them


class SentenceSplitter:
    """Splits lines of one language into sentences. Raises UserError where sentencex is not installed."""

    def __init__(self, lang: str):
        try:
            from sentencex import segment
        except ImportError:
            raise UserError("--split-sentences needs sentencex: pip install 'sentencex>=0.6.1,<0.7'") from None
        self.lang, self._segment = lang.partition("_")[0], segment  # mBART's en_XX is en

    def __call__(self, line: str) -> list[str]:
        """The sentences of a line, blanks at their ends removed; nothing but blanks is lost."""
        sentences: list[str] = []
        rest, size = line, LONGEST
        while len(rest) > size:
            found = self._sentences(rest[:size])
            if len(found) == 1:  # a single sentence that long, or longer
                size *= 2
                continue
            done = found[:-1]  # the last one may go on behind the cut
            sentences += done
            rest, size = rest[sum(map(len, done)) :], LONGEST
        sentences += self._sentences(rest)
        return [text for sentence in sentences if (text := sentence.strip())]

    def _sentences(self, text: str) -> list[str]:
        """Pieces that make up ``text`` exactly, blanks included: sentencex drops some of them between sentences."""
        pieces: list[str] = []
        position = 0
        for sentence in self._segment(self.lang, text):
            core = sentence.strip()
            if not core:
                continue
            begin = text.find(core, position)
            if begin < 0:  # it changed something: better one long sentence than a changed one
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
