"""The words of dictionary files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import read_lines

OVERWRITE = "#fairseq:overwrite"
RESERVED = ("<s>", "<pad>", "</s>", "<unk>")  # words that fairseq adds to every dictionary and never writes to its file

NEVER = 1000.0  # an --unkpen: taken off the log probability of <unk>, so that search never writes it
UNUSED = "<unused:{}>"  # the name of a row of a model without a word that text has


def control_symbols(langs: Iterable[str]) -> list[str]:
    """Return what a dictionary ends in: ``[en]``, ``[de]``, ``<mask>``."""
    return [*(f"[{lang}]" for lang in langs), "<mask>"]


def dictionary_words(path: str | Path) -> list[str]:
    """Read the words of a dictionary file in order.

    Raises UserError if it is missing, and for a line that is no entry of a dictionary, a word that occurs twice, or one
    that fairseq adds itself (``RESERVED``).
    """
    words: dict[str, None] = {}
    for number, line in enumerate(read_lines(path), 1):
        word, _, count = line.rpartition(" ")
        if not word or not count.isdigit() or word in RESERVED or word in words:
            raise UserError(f"{path}, line {number}: not a new dictionary entry ('word count'): {line[:80]}")
        words[word] = None
    return list(words)
