"""From what a model writes to plain text: BPE undone, detruecased, detokenised."""

from __future__ import annotations

from collections.abc import Sequence

from gtransformer.preprocess.bpe import remove_bpe
from gtransformer.preprocess.moses import moses_directory
from gtransformer.preprocess.tokenise import Detokeniser
from gtransformer.preprocess.truecase import detruecase

__all__ = ["Postprocessor", "remove_bpe"]


class Postprocessor:
    """Turns BPE (or tokenised, truecased) sentences of one language into plain text.

    ``moses``: a Moses directory whose Perl scripts are used; by default the variable MOSES, else sacremoses.
    """

    def __init__(self, lang: str, moses: str | None = None):
        self.lang, self.moses = lang, moses_directory(moses)
        self._detokeniser = Detokeniser(lang, self.moses)

    def plain(self, line: str) -> str:
        """Plain text of one sentence, without ``<s>`` and ``</s>``."""
        return self.plain_lines([line])[0]

    def plain_lines(self, lines: Sequence[str]) -> list[str]:
        """Plain text of sentences; as many come back as went in (with Moses much faster than one at a time)."""
        return self._detokeniser(detruecase([remove_bpe(line) for line in lines], self.moses))
