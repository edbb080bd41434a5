"""From what a model writes to plain text: BPE undone, detruecased, detokenised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.preprocess.bpe import remove_bpe
from gtransformer.preprocess.encode import is_exact, never_truecased
from gtransformer.preprocess.instances import split_instance
from gtransformer.preprocess.moses import moses_directory
from gtransformer.preprocess.parallel import AroundDocuments
from gtransformer.preprocess.pieces import SENTENCEPIECE_FILE, SentencePieces
from gtransformer.preprocess.tokenise import Detokeniser
from gtransformer.preprocess.truecase import detruecase


class Postprocessor:
    """Turns BPE (or tokenised, truecased) sentences of one language into plain text.

    ``moses``: a Moses directory whose Perl scripts are used; by default the variable MOSES, else sacremoses.
    ``given``: the text was never truecased, and tokenised as a given model wants it (``Tokeniser`` escaped).
    ``exact``: it was tokenised and truecased so that it comes back (``spacing``), which Moses' scripts cannot do.
    """

    def __init__(self, lang: str, moses: str | None = None, given: bool = False, exact: bool = False):
        if exact and moses:
            raise UserError(f"--moses {moses}: the corpus was prepared by rules that Moses does not have; leave it out")
        self.lang, self.moses, self.given, self.exact = lang, None if exact else moses_directory(moses), given, exact
        self._detokeniser = Detokeniser(lang, self.moses, given, exact)

    def plain(self, line: str) -> str:
        """Plain text of one sentence, without ``<s>`` and ``</s>``."""
        return self.plain_lines([line])[0]

    def plain_lines(self, lines: Sequence[str]) -> list[str]:
        """Plain text of sentences; as many come back as went in (with Moses much faster than one at a time)."""
        words = [remove_bpe(line) for line in lines]
        return self._detokeniser(words if self.given else detruecase(words, self.moses, self.exact))

    @property
    def name(self) -> str:
        """What detokenises, for records of scores."""
        return "gtransformer" if self.exact else "Moses" if self.moses else "sacremoses"


class LineProcessor:
    """Plain text of the lines of a chunk; ``<d>`` lines stay, instance lines become a line per sentence."""

    def __init__(self, processor: Postprocessor | PieceJoiner, instances: bool):
        self._plain, self.instances = AroundDocuments(processor.plain_lines), instances

    def __call__(self, chunk: list[str]) -> list[str]:
        return self._plain([part for line in chunk for part in split_instance(line)] if self.instances else chunk)


class PieceJoiner:
    """Turns SentencePiece's pieces into plain text: nothing else was done to it."""

    name = "sentencepiece"

    def __init__(self, prepared: str | Path):
        self.plain_lines = SentencePieces(Path(prepared) / SENTENCEPIECE_FILE).join


def postprocessor_for(prepared: str | Path, lang: str, moses: str | None = None) -> Postprocessor | PieceJoiner:
    """What turns translations made with a prepared corpus into plain text."""
    if (Path(prepared) / SENTENCEPIECE_FILE).is_file():
        return PieceJoiner(prepared)
    return Postprocessor(lang, moses, never_truecased(prepared, lang), is_exact(prepared))
