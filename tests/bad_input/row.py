"""A row of the table of bad input: what is given, and what must be said; and how it is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tests.support import ROOT

TEXT = "The old dog sleeps.\nMary finds her book.\n"
# Nothing is made of these in a test.
GIVEN = {
    "root": ROOT,
    "model": ROOT / "tests" / "small_model" / "model",
    "checkpoint": ROOT / "tests" / "small_model" / "checkpoint.pt",
    "prepared": ROOT / "tests" / "small_model" / "prepared",
    "corpus": ROOT / "tests" / "prepared" / "len48",
    "items": ROOT / "tests" / "small_model" / "contrastive.json",
}
ERROR = re.compile(r"(?:error|[\w./ -]+: error): (.*)")
# What only programmers say.
RAW = re.compile(r"Traceback|Errno|NoneType|object has no attribute|\w+Error\b|\w+Exception\b|<class '")


def nothing(place: Path) -> None:
    """There is a text and no more."""


@dataclass(frozen=True)
class Row:
    """One kind of bad input.

    line: a command of gtransformer/cli and its words, or fairseq-train and so on; in braces stand the paths of GIVEN
        and ``place``, the row's own folder, ``text`` and ``out`` in it.
    says: what its one sentence has in it; paths as there.
    make: puts into the folder what the row needs.
    """

    name: str
    line: str
    says: str
    make: Callable[[Path], object] = nothing

    def paths(self, place: Path) -> dict[str, Path]:
        return GIVEN | {"place": place, "text": place / "text", "out": place / "out"}

    def words(self, place: Path) -> list[str]:
        return [filled(word, self.paths(place)) for word in shlex.split(self.line)]


def filled(text: str, paths: Mapping[str, Path]) -> str:
    """A text with its paths; other braces stand for themselves."""
    return re.sub(r"\{(\w+)\}", lambda found: str(paths.get(found[1], found[0])), text)


def run_here(words: list[str]) -> int:
    """A command of gtransformer/cli or gtransformer/lab/cli in this process; its exit status."""
    lab = "" if find_spec(f"gtransformer.cli.{words[0]}") else ".lab"
    try:
        return import_module(f"gtransformer{lab}.cli.{words[0]}").main(words[1:])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def sentence(said: str) -> str:
    """The one sentence that a failing command ends with; what stands before it is its usage, if anything."""
    lines = said.splitlines()
    found = [number for number, line in enumerate(lines) if ERROR.fullmatch(line)]
    assert found == [len(lines) - 1], said
    assert found == [0] or said.startswith("usage: "), said
    text = ERROR.fullmatch(lines[-1])[1]
    assert not RAW.search(text) and len(text) < 1000, text
    return text


def everything(place: Path) -> dict[str, bytes]:
    """All files with what they hold, but locks, which hold nothing."""
    files = (path for path in sorted(place.rglob("*")) if path.is_file() and path.name != "lock")
    return {str(path): path.read_bytes() for path in files}
