"""The words of dictionary files."""

from __future__ import annotations

from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import read_lines

OVERWRITE = "#fairseq:overwrite"
RESERVED = ("<s>", "<pad>", "</s>", "<unk>")  # what a fairseq dictionary holds of itself, never written to its file

UNUSED = "<unused:{}>"  # the name of a row of a model without a word that text has


def dictionary_words(path: str | Path) -> list[str]:
    """Read the words of a dictionary file in order.

    Raises UserError if it is missing or empty, if a line has no count, for a word that stands twice and for one of the
    four that fairseq adds by itself.
    """
    words: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        word, _, count = line.rpartition(" ")
        if line.endswith(OVERWRITE):
            what = f"a word that takes the place of another ({OVERWRITE}), which no model of this package can have; "
            what += "give another dictionary, and the model that was trained with it"
            raise UserError(f"{path}, line {number}: {what}")
        if not word or not count.isdigit():
            raise UserError(f"{path}, line {number}: not a dictionary entry ('word count')")
        if word in RESERVED:
            what = f"{word} is a word of every dictionary, which fairseq adds by itself; remove the line"
            raise UserError(f"{path}, line {number}: {what}")
        if word in words:
            raise UserError(f"{path}, line {number}: '{word[:80]}' stands in line {words[word]} already; keep one")
        words[word] = number
    if not words:
        raise UserError(f"{path}, line 1: the dictionary is empty; give the one that came with the model")
    return list(words)
