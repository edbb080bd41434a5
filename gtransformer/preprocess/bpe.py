"""Byte pair encoding with subword-nmt: learn, apply, undo."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import fault

SEPARATOR = "@@"
FAST = re.compile(r"\S+ \S+ \d+")  # a line of fastBPE's codes


def remove_bpe_lines(lines: Sequence[str]) -> list[str]:
    """Undo BPE: ``"Haus@@ boot ."`` becomes ``"Hausboot ."``; also at the end of a line."""
    return [f"{line} ".replace(f"{SEPARATOR} ", "").rstrip(" ") for line in lines]


def learn_codes(lines: Iterable[str], codes: Path, merges: int) -> int:
    """Learn at most ``merges`` operations from tokenised lines; write and count them.

    Learning stops when no pair of symbols occurs twice.
    """
    learnt = io.StringIO()
    with redirect_stderr(
        io.StringIO()
    ):  # in a log file its progress bar would be a line for every merge
        learn_bpe(lines, learnt, merges)
    with atomic_write(codes) as stream:
        stream.write(learnt.getvalue())
    return learnt.getvalue().count("\n") - 1


def read_codes(path: str | Path) -> list[str]:
    """Read the lines of BPE codes in subword-nmt's format.

    fastBPE's lines end in a count, and it has no line with a version; its word ends are those of
    version 0.2. Raises UserError for a line that is no merge.
    """
    lines = list(read_lines(path))
    if (
        lines
        and not lines[0].startswith("#version")
        and all(FAST.fullmatch(line) for line in lines)
    ):
        lines = ["#version: 0.2", *(line.rpartition(" ")[0] for line in lines)]
    for number, line in enumerate(lines, 1):  # subword-nmt would end the program
        if len(line.strip("\r ").split(" ")) != 2:
            raise fault(path, number, "not a BPE merge (two symbols)")
    return lines


def codes_fit(codes: Iterable[str], words: Iterable[str]) -> bool:
    """Return whether a dictionary has at least one of the subwords that the codes produce."""
    known = frozenset(words)
    merged = ("".join(line.split()) for line in codes if not line.startswith("#version"))
    return any(
        (piece.removesuffix("</w>") in known) or (f"{piece}{SEPARATOR}" in known)
        for piece in merged
    )


def read_bpe(codes: Path, known: Iterable[str] | None = None) -> BPE:
    """Return subword-nmt's encoder.

    ``known``: the words of a dictionary. Merges of a subword that is not in it are undone until all
    parts are in it, as subword-nmt and fastBPE do with a vocabulary. None: subwords are not
    checked.
    """
    lines = "".join(f"{line}\n" for line in read_codes(codes))
    return BPE(
        io.StringIO(lines), separator=SEPARATOR, vocab=None if known is None else frozenset(known)
    )


def apply_bpe(bpe: BPE, lines: Sequence[str]) -> list[str]:
    """Split tokenised lines."""
    return [" ".join(bpe.segment_tokens(line.split())) for line in lines]
