"""Joint byte pair encoding with subword-nmt: learn on both sides of the training set, apply, undo."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import fault, is_document_mark
from gtransformer.preprocess.parallel import map_chunks
from gtransformer.preprocess.tokenise import CONTROL

SEPARATOR = "@@"
FAST = re.compile(r"\S+ \S+ \d+")  # a line of fastBPE's codes
VERSION = re.compile(r"#version:\s+0\.[12](\.0+)*\s*")  # all existing versions
REMEMBERED = 200_000  # words in the cache, whose size must be bounded


def remove_bpe_lines(lines: Sequence[str]) -> list[str]:
    """Undo BPE: ``"Haus@@ boot ."`` becomes ``"Hausboot ."``. A separator left at the end of a line goes as well."""
    return [f"{line} ".replace(f"{SEPARATOR} ", "").rstrip(" ") for line in lines]


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words of tokenised lines."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split())
    return counts


def count_all(files: Sequence[str | Path], workers: int, label: str) -> Counter[str]:
    """Count the words of tokenised files together, without ``<d>`` lines."""
    counts: Counter[str] = Counter()
    for path in files:
        lines = (line for line in read_lines(path) if not is_document_mark(line))
        for part in map_chunks(count_words, lines, workers, label=f"{label} {Path(path).name}"):
            counts.update(part)
    return counts


def learn(files: Sequence[str | Path], codes: str | Path, merges: int, workers: int = 1) -> int:
    """Learn at most ``merges`` merge operations on tokenised files together; write them and return their number.

    ``<d>`` lines are left out. Learning stops when no pair of symbols occurs twice. The result does not depend on the
    order of files or lines. Raises UserError if a file is missing or has too little text.
    """
    counts = count_all(files, workers, "words of")
    words = io.StringIO("".join(f"{word} {count}\n" for word, count in sorted(counts.items())))
    learnt = io.StringIO()
    if any(len(word) > 1 for word in counts):
        with contextlib.redirect_stderr(_RareProgress()):
            learn_bpe(words, learnt, merges, is_dict=True)
    number = learnt.getvalue().count("\n") - 1
    if number < 1:
        raise UserError(f"{files[0]}: too little text to learn BPE from, no two letters occur together twice")
    with atomic_write(codes) as stream:
        stream.write(learnt.getvalue())
    return number


class _RareProgress(io.TextIOBase):
    """A filter of standard error for subword-nmt's progress bar; in a log file one line every half a minute."""

    def __init__(self) -> None:
        self.stream, self.shown = sys.stderr, time.monotonic()

    def write(self, text: str) -> int:
        if text.startswith("\r") and (self.stream.isatty() or time.monotonic() - self.shown > 30):
            self.shown = time.monotonic()
            self.stream.write(text)
        return len(text)


def take_codes(given: str | Path, codes: str | Path) -> int:
    """Write given BPE codes of subword-nmt or fastBPE in subword-nmt's format; return their number.

    Raises UserError as ``read_codes``.
    """
    lines = read_codes(given)
    with atomic_write(codes) as stream:
        stream.writelines(f"{line}\n" for line in lines)
    return len(lines) - lines[0].startswith("#version")


def read_codes(path: str | Path) -> list[str]:
    """Read the lines of BPE codes in subword-nmt's format.

    fastBPE's lines end in a count, and it has no line with a version; its word ends are those of version 0.2. Raises
    UserError for a line that is no merge, for an unknown version, and for a file without merges.
    """
    lines = list(read_lines(path))
    if lines and not lines[0].startswith("#version") and all(FAST.fullmatch(line) for line in lines):
        lines = ["#version: 0.2", *(line.rpartition(" ")[0] for line in lines)]
    versioned = bool(lines) and lines[0].startswith("#version")
    if versioned and not VERSION.fullmatch(lines[0]):
        raise fault(path, 1, "not a known version of BPE codes ('#version: 0.2')")
    for number, line in enumerate(lines[versioned:], 1 + versioned):
        if len(line.strip("\r ").split(" ")) != 2:
            raise fault(path, number, "not a BPE merge (two symbols)")
    if len(lines) == versioned:
        raise UserError(f"{path}: has no BPE merges; give the codes that were learnt with the vocabulary")
    return lines


def codes_fit(codes: Iterable[str], words: Iterable[str]) -> bool:
    """Return whether a dictionary has at least one of the subwords that the codes produce."""
    known = frozenset(words)
    merged = ("".join(line.split()) for line in codes if not line.startswith("#version"))
    return any((piece.removesuffix("</w>") in known) or (f"{piece}{SEPARATOR}" in known) for piece in merged)


class Encoder:
    """An encoder of tokenised lines by BPE codes, with a cache of words.

    ``known``: the words of a dictionary. Merges of a subword that is not in it are undone until all parts are in it, as
    subword-nmt and fastBPE do with a vocabulary. None: subwords are not checked.
    """

    def __init__(self, codes: str | Path, known: Iterable[str] | None = None):
        lines = "".join(f"{line}\n" for line in read_codes(codes))
        self._bpe = BPE(io.StringIO(lines), separator=SEPARATOR, vocab=None if known is None else frozenset(known))
        self._known: dict[str, str] = {}

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Encode tokenised lines, one by one."""
        return [" ".join(self.word(word) for word in line.split()) for line in lines]

    def word(self, word: str) -> str:
        """Return the subwords of one word; all but the last end in ``@@``."""
        pieces = self._known.get(word)
        if pieces is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
                self._bpe.cache.clear()
            *before, last = self._bpe.segment_tokens([word])
            if CONTROL.fullmatch(last):  # ``<pad>`` at the end of a word would be the control symbol
                last = " ".join([*(f"{letter}{SEPARATOR}" for letter in last[:-1]), last[-1]])
            pieces = self._known[word] = " ".join([*before, last])
        return pieces
