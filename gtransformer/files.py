"""Reading and writing of files: errors name file and line, and no incomplete files are left."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import lzma
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from gtransformer.errors import UserError

PARAMETERS = "model.safetensors"  # of a model directory
COMPRESSED = (".xz", ".gz")  # suffixes of files that are decompressed when they are read


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file for reading bytes, decompressing ``.xz`` and ``.gz``. Raises UserError if it
    cannot be opened.
    """
    path = Path(path)
    try:
        if path.suffix == ".xz":
            return lzma.open(path, "rb")
        if path.suffix == ".gz":
            return gzip.open(path, "rb")
        return open(path, "rb")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def either_form(path: Path) -> Path:
    """Return the path of a file, or of its compressed form where only that exists."""
    forms = (path.with_name(path.name + end) for end in ("", *COMPRESSED))
    return next(filter(Path.is_file, forms), path)


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file. All text files are read by this function.

    A line ends at ``\\n`` or ``\\r\\n``, which are removed, as is a byte order mark. Raises
    UserError, naming file and line, for bytes that are not UTF-8.
    """
    with open_bytes(path) as stream:
        yield from decode_lines(stream, path)


def decode_lines(stream: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """Yield the lines of an open stream, as ``read_lines``; ``name`` is for messages."""
    for number, line in enumerate(stream, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            # Line by line and not by universal newlines, for which a lone carriage return ends a
            # line.
            yield line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: byte 0x{error.object[error.start]:02x} at column "
                f"{error.start + 1} is not UTF-8; convert the file to UTF-8"
            ) from None


def check_output(path: str | Path, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise UserError for a directory, and for a file that is read (``inputs``; None is passed
    over); for use before long work.
    """
    if Path(path).is_dir():
        raise UserError(f"{path}: is a directory; name a file")
    if Path(path).is_file() and any(
        Path(one).is_file() and Path(one).samefile(path) for one in filter(None, inputs)
    ):
        raise UserError(
            f"{path}: is read, and the results would replace it; name another file for them"
        )


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[Any]:
    """Write a temporary file next to ``path`` and rename it at the end; after an error or interrupt
    neither is left.

    The target of a symbolic link is replaced. Devices, pipes and streams are written directly.
    """
    path = Path(path)
    check_output(path)
    # /dev/stdout, for one, may be a pipe, which no file can replace.
    replaceable = path.is_file() or not path.exists()
    # Renaming onto a symbolic link would replace the link.
    target = Path(os.path.realpath(path)) if replaceable else path
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp") if replaceable else target
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stream = open(temporary, mode, **text)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with stream:
            yield stream
        if replaceable:
            os.replace(temporary, target)
    except BaseException:
        if replaceable:
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Give a folder to write in, which is renamed to ``path`` at the end; nothing may be there
    then. After an error or an interrupt the folder is gone.
    """
    # Beside its place, since a rename across file systems is not atomic.
    work = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    work.mkdir(parents=True)
    try:
        yield work
        os.replace(work, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines, atomically."""
    with atomic_write(path) as stream:
        stream.writelines(f"{line}\n" for line in lines)


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented UTF-8 JSON, atomically."""
    with atomic_write(path) as stream:
        json.dump(value, stream, ensure_ascii=False, indent=1)
        stream.write("\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file. Raise UserError if it is missing or damaged."""
    text = "\n".join(read_lines(path))
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None


def read_record(path: str | Path) -> dict[str, Any]:
    """Return the content of a JSON file of facts about some work; empty if it is missing or
    damaged.
    """
    try:
        record = read_json(path)
    except UserError:
        return {}
    return record if isinstance(record, dict) else {}


def digest(value: Any) -> str:
    """Return a short digest of settings or checksums (JSON)."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def sha256(path: str | Path) -> str | None:
    """Return the hexadecimal SHA-256 of a file's bytes on disk; None for a pipe, whose bytes are
    gone.
    """
    if Path(path).is_fifo():
        return None
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
