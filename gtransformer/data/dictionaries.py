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

    Raises UserError if it is missing or empty, if a line has no count, for a word that occurs twice, and for a word
    that fairseq adds itself (``RESERVED``).
    """
    words: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        word, _, count = line.rpartition(" ")
        if line.endswith(OVERWRITE):
            what = f"a word that replaces another ({OVERWRITE}), which this package does not support; "
            what += "give another dictionary, and the model that was trained with it"
            raise UserError(f"{path}, line {number}: {what}")
        if not word or not count.isdigit():
            raise UserError(f"{path}, line {number}: not a dictionary entry ('word count')")
        if word in RESERVED:
            what = f"{word} is a word that fairseq adds to every dictionary; remove the line"
            raise UserError(f"{path}, line {number}: {what}")
        if word in words:
            raise UserError(f"{path}, line {number}: '{word[:80]}' is already in line {words[word]}; keep one")
        words[word] = number
    if not words:
        raise UserError(f"{path}, line 1: the dictionary is empty; give the one that came with the model")
    return list(words)
