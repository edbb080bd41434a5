"""The corpus files inside an archive. Names in the archive only say what a file is, never where it is written."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from gtransformer.errors import UserError
from gtransformer.files import atomic_write

CORPUS_FILE = re.compile(r"(concatenated_[a-z]+2[a-z]+_(?:train|dev|test)_[a-z]+\.txt)(\.gz|\.xz)?")
ARCHIVE = re.compile(r".+\.(zip|tar|tar\.gz|tgz|tar\.xz|txz|tar\.bz2|tbz2)")
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError)


def unpack_corpus(archive: Path, corpus: str, target: Path) -> list[Path]:
    """Write the corpus's files, uncompressed, into ``target``; returns their paths.

    An archive may hold several corpora: then the folder, or the inner archive, that bears the corpus's name counts.
    Raises UserError for a damaged archive, or if one file appears twice.
    """
    found: dict[str, Path] = {}
    try:
        with open(archive, "rb") as stream:
            for name, compression, member in _members(stream, archive.name, corpus, _names(corpus, archive.name)):
                if name in found:
                    raise UserError(f"{archive}: holds {name} for '{corpus}' more than once; unpack it by hand")
                found[name] = write_plain(member, compression, target / name)
    except DAMAGE as error:
        archive.unlink()  # the next run fetches it anew
        raise UserError(f"{archive.name}: is damaged or no archive ({error}); run the command again") from None
    return [found[name] for name in sorted(found)]


def write_plain(stream: BinaryIO, compression: str, target: Path) -> Path:
    """Decompress (``.gz``, ``.xz`` or nothing) a stream to a file, atomically."""
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(compression)
    with atomic_write(target, "wb") as output:
        if opener is None:
            shutil.copyfileobj(stream, output)
        else:
            with opener(stream, "rb") as plain:
                shutil.copyfileobj(plain, output)
    return target


def _names(corpus: str, path: str) -> bool:
    """Does a part of a path name the corpus: ``data/ted/x``, ``en-de_TED.zip``, but not ``united/x``?"""
    return re.search(rf"(?<![a-z]){re.escape(corpus)}(?![a-z])", path.lower()) is not None


def _members(stream: BinaryIO, name: str, corpus: str, everything: bool) -> Iterator[tuple[str, str, BinaryIO]]:
    """(file name, compression, bytes) of the corpus's files in an archive and in archives inside it."""
    with _opened(stream, name) as files:
        for path, open_member in files:
            plain = PurePosixPath(path.replace("\\", "/")).name
            belongs = everything or _names(corpus, path)
            if belongs and (match := CORPUS_FILE.fullmatch(plain)):
                with open_member() as member:
                    yield match[1], match[2] or "", member
            elif belongs and ARCHIVE.fullmatch(plain.lower()):
                with open_member() as member:
                    inner = io.BytesIO(member.read())  # formats with their index at the end need to seek
                yield from _members(inner, plain, corpus, True)


@contextmanager
def _opened(stream: BinaryIO, name: str):
    """The regular files of an archive, as (path, function that opens)."""
    if name.lower().endswith(".zip"):
        with zipfile.ZipFile(stream) as archive:
            items = [item for item in archive.infolist() if not item.is_dir()]
            yield [(item.filename, lambda item=item: archive.open(item)) for item in items]
    else:
        with tarfile.open(fileobj=stream, mode="r:*") as archive:
            yield [(item.name, lambda item=item: archive.extractfile(item)) for item in archive if item.isfile()]
