"""Joint byte pair encoding with subword-nmt: learn on both sides of the training set, apply, undo."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, redirect_stderr
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
        # In a log file subword-nmt's progress bar would fill a line for every step.
        with nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()):
            learn_bpe(words, learnt, merges, is_dict=True)
    number = learnt.getvalue().count("\n") - 1
    if number < 1:
        raise UserError(f"{files[0]}: too little text to learn BPE from, no two letters occur together twice")
    with atomic_write(codes) as stream:
        stream.write(learnt.getvalue())
    return number


def take_codes(given: str | Path, codes: str | Path) -> None:
    """Write given BPE codes of subword-nmt or fastBPE in subword-nmt's format."""
    with atomic_write(codes) as stream:
        stream.writelines(f"{line}\n" for line in read_codes(given))


def read_codes(path: str | Path) -> list[str]:
    """Read the lines of BPE codes in subword-nmt's format.

    fastBPE's lines end in a count, and it has no line with a version; its word ends are those of version 0.2. Raises
    UserError for a line that is no merge.
    """
    lines = list(read_lines(path))
    if lines and not lines[0].startswith("#version") and all(FAST.fullmatch(line) for line in lines):
        lines = ["#version: 0.2", *(line.rpartition(" ")[0] for line in lines)]
    for number, line in enumerate(lines, 1):  # subword-nmt would end the program
        if len(line.strip("\r ").split(" ")) != 2:
            raise fault(path, number, "not a BPE merge (two symbols)")
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
            *before, last = self._bpe.segment_tokens([word])
            if CONTROL.fullmatch(last):  # ``<pad>`` at the end of a word would be the control symbol
                last = " ".join([*(f"{letter}{SEPARATOR}" for letter in last[:-1]), last[-1]])
            pieces = self._known[word] = " ".join([*before, last])
        return pieces
