"""Checksum lists in the form of sha256sum, and what a downloaded corpus is held against."""

from __future__ import annotations

import re
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines, sha256

LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def read_sums(path: Path) -> dict[str, str]:
    """File name -> SHA-256 of a list; lines with ``#`` are comments. Raises UserError with file and line."""
    sums = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.rstrip("\r"))
        if match is None:
            raise UserError(f"{path}, line {number}: expected a SHA-256, two spaces and a file name")
        sums[match[2].removeprefix("./")] = match[1]
    return sums


def write_sums(path: Path, sums: dict[str, str]) -> None:
    """Write a list, by file name."""
    with atomic_write(path) as stream:
        stream.writelines(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


def verify(path: Path, expected: str, source: str) -> None:
    """Raise UserError unless the file's SHA-256 is ``expected``, as ``source`` says."""
    actual = sha256(path)
    if actual != expected:
        raise UserError(
            f"{path.name}: wrong checksum: SHA-256 is {actual}, but {source} says {expected}; the file is damaged "
            "or was changed"
        )
