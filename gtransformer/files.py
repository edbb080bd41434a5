"""Reading and writing of files: errors name file and line, and no incomplete files are left."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from gtransformer.errors import UserError

MODEL_FILE = "model.pt"  # the checkpoint in a model directory
CHECKPOINT_ENDING = ".pt"  # of names
NO_JSON = (ValueError, RecursionError)  # errors of Python's parser
# First bytes of files that are no UTF-8 text, and their kinds.
FOREIGN = {
    codecs.BOM_UTF16_LE: "UTF-16 text",
    codecs.BOM_UTF16_BE: "UTF-16 text",
    b"\x1f\x8b": "data of gzip (with .gz at the end of its name it can be read)",
    b"\xfd7zXZ": "data of xz (with .xz at the end of its name it can be read)",
    b"\x28\xb5\x2f\xfd": "data of zstd",
    **dict.fromkeys((b"BZh%d1AY&SY" % level for level in range(1, 10)), "data of bzip2"),
    b"PK\x03\x04": "a zip archive or an office document",
    b"%PDF-": "a PDF",
}
COMPRESSED = (".xz", ".gz")  # suffixes of files that are decompressed when they are read
OPEN = re.compile(r"/dev/(fd/|std(in|out|err)$)|/proc/[^/]+/fd/")  # paths of a process's open files


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file for reading bytes, decompressing ``.xz`` and ``.gz``. Raises UserError if it cannot be opened."""
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


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file. All text files are read by this function.

    A line ends at ``\\n`` or ``\\r\\n``, which are removed, as is a byte order mark. Raises UserError, naming file and
    line, for bytes that are not UTF-8, lines that end only in ``\\r``, and damaged compressed data.
    """
    with open_bytes(path) as stream:
        yield from decode_lines(stream, path)


def decode_lines(stream: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """Yield the lines of an open stream, as ``read_lines``; ``name`` is for messages."""
    number = 0
    try:
        for line in stream:
            number += 1
            if number == 1:
                line = _first_line(line, name)
            yield line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}, line {number}: byte 0x{error.object[error.start]:02x} at column {error.start + 1} is not "
            "UTF-8; convert the file to UTF-8"
        ) from None
    except (lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(
            f"{name}, after line {number}: compressed data is damaged ({error}); fetch the file again"
        ) from None


def _first_line(line: bytes, name: str | Path) -> bytes:
    """Return the first line without a byte order mark. Raise UserError if it shows that this is no UTF-8 text."""
    kind = next((what for begin, what in FOREIGN.items() if line.startswith(begin)), None)
    blanks = line.count(b" ")  # in UTF-16 most letters of Latin have a zero byte, and in all scripts the blanks
    if kind is None and (line.count(0) * 3 > len(line) or 0 < blanks in (line.count(b" \0"), line.count(b"\0 "))):
        kind = "UTF-16 text"
    if kind is not None:
        raise UserError(f"{name}, line 1: the file is {kind}; give plain text in UTF-8")
    if not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r"):
        raise UserError(f"{name}, line 1: lines end in carriage returns only; convert them to line feeds")
    return line.removeprefix(codecs.BOM_UTF8)


def check_output(path: str | Path, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise UserError for a directory, for the suffix of compressed data, and for a file that is read (``inputs``; None
    is passed over); for use before long work.
    """
    if Path(path).is_dir():
        raise UserError(f"{path}: is a directory; name a file")
    if Path(path).suffix in COMPRESSED:
        raise UserError(f"{path}: outputs are not compressed; give a name without {Path(path).suffix}")
    if Path(path).is_file() and any(Path(one).is_file() and Path(one).samefile(path) for one in filter(None, inputs)):
        raise UserError(f"{path}: is read, and the results would replace it; name another file for them")


def check_outputs(paths: Iterable[str | Path], inputs: Sequence[str | Path | None] = ()) -> None:
    """Raise UserError as ``check_output`` for several files, and if two of them are one."""
    written: set[Path] = set()
    for path in map(Path, paths):
        check_output(path, inputs)
        if path.resolve() in written:
            raise UserError(f"{path}: two results would be written to it; name another file for one of them")
        written.add(path.resolve())


def is_replaceable(path: str | Path) -> bool:
    """Return whether another file may replace ``path``: a regular file, or none yet; not a device, pipe or stream."""
    path = Path(path)
    return not OPEN.match(os.path.abspath(path)) and (path.is_file() or not path.exists())


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[Any]:
    """Write a temporary file next to ``path`` and rename it at the end; after an error or interrupt neither is left.

    The target of a symbolic link is replaced. Devices and the like (not ``is_replaceable``) are written directly.
    """
    path = Path(path)
    check_output(path)
    replaceable = is_replaceable(path)
    target = Path(os.path.realpath(path)) if replaceable else path
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp") if replaceable else target
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stream = open(temporary, mode if replaceable else mode.replace("w", "a"), **text)
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


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented UTF-8 JSON, atomically."""
    with atomic_write(path) as stream:
        json.dump(value, stream, ensure_ascii=False, indent=1)
        stream.write("\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file. Raise UserError with file and line if it is missing or damaged."""
    text = "\n".join(read_lines(path))
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not valid JSON ({error.msg})") from None
    except NO_JSON as error:
        raise UserError(f"{path}: not valid JSON ({json_fault(error)})") from None


def check_entry(where: str, valid: Mapping[str, bool]) -> None:
    """UserError for the first key of an entry whose value is not valid."""
    for key, right in valid.items():
        if not right:
            raise UserError(f"{where} has no valid {key!r}; correct it")


def is_count(value: object) -> bool:
    """Return whether a value from a file is a whole number, 0 or more."""
    return type(value) is int and value >= 0


def are_texts(value: object) -> bool:
    """Return whether a value from a file is a list of strings."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def json_fault(error: BaseException) -> str:
    """Return the reason why text is no JSON, given one of NO_JSON."""
    return getattr(error, "msg", "brackets or a number without end")


def process_memory(field: str, process: int | str = "self") -> int | None:
    """Return the memory in bytes of a running program, without its children; None if Linux does not report it.

    ``field``: ``VmHWM``, the peak so far (``ru_maxrss`` would start from the parent's), or ``RssAnon``, the current
    private memory. ``process``: its id.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


def digest(value: Any) -> str:
    """Return a short digest of settings or checksums (JSON)."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def sha256(path: str | Path) -> str | None:
    """Return the hexadecimal SHA-256 of a file's bytes on disk; None for a pipe, whose bytes are gone."""
    if Path(path).is_fifo():
        return None
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    return digest.hexdigest()
