"""Vocabularies: the words of one side with their indices, read from and written to fairseq's
dictionary files.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines

OVERWRITE = "#fairseq:overwrite"
# Words that fairseq adds to every dictionary and never writes to its file.
RESERVED = (
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
)

# An --unkpen: taken off the log probability of <unk>, so that search never writes it.
NEVER = 1000.0
UNUSED = "<unused:{}>"  # the name of a row of a model without a word that text has


def control_symbols(langs: Iterable[str]) -> list[str]:
    """Return what a dictionary ends in: ``[en]``, ``[de]``, ``<mask>``."""
    return [*(f"[{lang}]" for lang in langs), "<mask>"]


def dictionary_words(path: str | Path) -> list[str]:
    """Read the words of a dictionary file in order.

    Raises UserError if it is missing, and for a line that is no entry of a dictionary, a word that
    occurs twice, or one that fairseq adds itself (``RESERVED``).
    """
    words: dict[str, None] = {}
    for number, line in enumerate(read_lines(path), 1):
        word, _, count = line.rpartition(" ")
        if not word or not count.isdigit() or word in RESERVED or word in words:
            raise UserError(
                f"{path}, line {number}: not a new dictionary entry ('word count'): {line[:80]}"
            )
        words[word] = None
    return list(words)


class Vocabulary:
    """The words of one side; a word's index is that of fairseq's ``Dictionary``: ``RESERVED`` come
    first.

    Attributes:
        symbols: the words in the order of their indices.
        indices: the index of each word.
    """

    def __init__(self, words: Iterable[str] = ()):
        self.symbols: list[str] = []
        self.indices: dict[str, int] = {}
        for word in (*RESERVED, *words):
            self.add_symbol(word)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a dictionary file. Raise UserError as ``dictionary_words``."""
        return cls(dictionary_words(path))

    def save(self, path: str | Path) -> None:
        """Write a dictionary file; every word has the count 1."""
        with atomic_write(path) as stream:
            stream.writelines(f"{word} 1\n" for word in self.symbols[len(RESERVED) :])

    def add_symbol(self, word: str) -> None:
        """Append a word, unless it is there."""
        if word not in self.indices:
            self.indices[word] = len(self.symbols)
            self.symbols.append(word)

    def __len__(self) -> int:
        return len(self.symbols)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.symbols == other.symbols

    def __getitem__(self, index: int) -> str:
        return self.symbols[index]

    def index(self, word: str) -> int:
        """Return the index of a word; that of ``<unk>`` for an unknown one."""
        return self.indices.get(word, self.unk())

    def bos(self) -> int:
        """Return the index of ``<s>``."""
        return 0

    def pad(self) -> int:
        """Return the index of ``<pad>``."""
        return 1

    def eos(self) -> int:
        """Return the index of ``</s>``."""
        return 2

    def unk(self) -> int:
        """Return the index of ``<unk>``."""
        return 3
