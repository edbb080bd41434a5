"""Download a benchmark corpus of Maruf et al. (2019), verify it and write it in the raw corpus format.

A source is a folder NAME with the files (plain, ``.xz`` or ``.gz``), an archive ``NAME.zip`` (``.tar.gz``,
``.tar.xz``), or one archive of several corpora, as the authors' repository. Three lists of checksums are used: the one
that comes with the recipes (``configs/checksums``), a ``SHA256SUMS`` at the source, and ``data/NAME.sha256``, which the
first download writes.
"""

from __future__ import annotations

import gzip
import io
import logging
import lzma
import os
import re
import shutil
import sys
import tarfile
import time
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import requests
import urllib3

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines, sha256
from gtransformer.installation import config_directory
from gtransformer.preprocess.corpus import SPLITS, fault, raw_file, read_documents
from gtransformer.preprocess.parallel import progress

# The data repository of Maruf et al. (2019). Files are found by name, in folders and inner archives with the corpus's
# name, so that the layout of the repository does not matter.
PUBLIC_HOME = "https://github.com/sameenmaruf/selective-attn/archive/refs/heads/master.zip"
LANGUAGES = ("en", "de")
COMPRESSIONS = ("", ".xz", ".gz")
ARCHIVES = (".zip", ".tar.gz", ".tar.xz")
LIST = "SHA256SUMS"  # of the files as they are at their source
_SUM = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_CORPUS_FILE = re.compile(r"(concatenated_[a-z]+2[a-z]+_(?:train|dev|test)_[a-z]+\.txt)(\.gz|\.xz)?")
_ARCHIVE = re.compile(r".+\.(zip|tar|tar\.gz|tgz|tar\.xz|txz|tar\.bz2|tbz2)")
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError)
TIMEOUT = 60  # seconds without a byte
ATTEMPTS = 4
BLOCK = 1 << 16  # bytes
PASSING_STATUS = (408, 429, 500, 502, 503, 504)  # temporary errors


class NotFound(UserError):
    """The server has no such file."""


def file_names(langs: Sequence[str] = LANGUAGES) -> list[str]:
    """Return the names of the six files of a corpus; ``langs``: source and target."""
    return [raw_file(Path(), langs, split, lang).name for split in SPLITS for lang in langs]


def download(corpus: str, data: Path, source: str, accept_changed: bool = False) -> Path:
    """Download, verify and unpack one corpus; return its directory ``data/corpus``.

    Files are collected and verified in ``data/.corpus.download`` and moved at the end. If the source becomes
    unreachable, complete files are kept for the next run. After a wrong checksum all are fetched again.

    Raises UserError for an unreachable source, a missing file, a wrong checksum, files that are no corpus.
    """
    target, work, lock = data / corpus, data / f".{corpus}.download", data / f"{corpus}.sha256"
    known = known_sums(corpus, data)
    if target.is_dir():
        _require_files(target, str(target), target)
        verify_known(target, known, accept_changed, f"; or remove {target} and fetch the corpus again")
        print(f"{target}: exists, {len(known)} of {len(file_names())} checksums known and right")
        return target
    if Path(source).exists():
        source = Path(source).resolve().as_uri()
    print(f"fetching {corpus} from {source}")
    noted = work / "source"
    if not (noted.is_file() and noted.read_text(encoding="utf-8") == source):  # another's would pass for verified
        shutil.rmtree(work, ignore_errors=True)
        with atomic_write(noted) as stream:
            stream.write(source)
    files, vouched = _collect(corpus, source, work)
    _require_files(files, source, target)
    try:
        verify_known(files, known, accept_changed)
        counts = {split: read_counts(files, split) for split in SPLITS}
    except UserError:
        shutil.rmtree(work)  # another download may be right
        raise
    write_sums(lock, files, file_names())
    os.replace(files, target)
    shutil.rmtree(work)
    for split, (documents, sentences) in counts.items():
        print(f"  {split}: {documents} documents, {sentences} sentences")
    if unverified := [name for name in file_names() if name not in vouched | known.keys()]:
        print(f"warning: no checksum is known for {len(unverified)} files, so they are not verified. Their checksums")
        print(f"were written to {lock}, and later downloads are verified with it")
    return target


def pins(corpus: str) -> Path:
    """Return the path of the checksums that come with the recipes; missing if no trustworthy copy was available."""
    return config_directory() / "checksums" / f"{corpus}.sha256"


def read_sums(path: Path) -> dict[str, str]:
    """Read a list of sha256sum: file name -> SHA-256. Lines with ``#`` are comments. Raise UserError with the line."""
    sums = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SUM.fullmatch(line.rstrip("\r"))
        if match is None:
            raise fault(path, number, "expected a SHA-256, two spaces and a file name")
        sums[match[2].removeprefix("./")] = match[1]
    return sums


def _verify(path: Path, expected: str, source: str) -> None:
    """Raise UserError unless the file's SHA-256 is ``expected``, by the list ``source``."""
    actual = sha256(path)
    if actual != expected:
        raise UserError(
            f"{path}: wrong checksum: SHA-256 is {actual}, but {source} has {expected}; the file is damaged or was "
            "changed"
        )


def known_sums(corpus: str, data: Path) -> dict[str, tuple[str, str]]:
    """Return what is known of a corpus's files: {name: (checksum, the list that says so)}."""
    known = {}
    for path in (data / f"{corpus}.sha256", pins(corpus)):
        if path.is_file():
            known |= {name: (digest, str(path)) for name, digest in read_sums(path).items()}
    return known


def write_sums(path: Path, directory: Path, names: Iterable[str], comments: Iterable[str] = ()) -> None:
    """Write the checksums of files in a directory as ``read_sums`` reads them."""
    with atomic_write(path) as stream:
        stream.writelines(f"# {comment}\n" for comment in comments)
        stream.writelines(f"{sha256(directory / name)}  {name}\n" for name in sorted(names))


def verify_known(directory: Path, known: dict[str, tuple[str, str]], accept_changed: bool, advice: str = "") -> None:
    """Verify files against {name: (checksum, who says so)}. A wrong one is an error, or if accepted a warning."""
    for name, (expected, source) in known.items():
        try:
            _verify(directory / name, expected, source)
        except UserError as error:
            if not accept_changed:
                raise UserError(f"{error} (if you know that it is right, add --accept-changed){advice}") from None
            print(f"warning: {error}: accepted because of --accept-changed", file=sys.stderr)


def _require_files(directory: Path, source: str, target: Path) -> None:
    missing = [name for name in file_names() if not (directory / name).is_file()]
    if missing:
        raise UserError(
            f"{source}: lacks {', '.join(missing)}; put the files of the corpus into {target} by hand, or name another "
            "source in GTRANSFORMER_MIRROR"
        )


def read_counts(directory: Path, split: str, langs: Sequence[str] = LANGUAGES) -> tuple[int, int]:
    """Return the numbers of documents and sentences of a split. Raises UserError as ``read_pairs``."""
    sides = [raw_file(directory, langs, split, lang) for lang in langs]
    counts = [len(document) for document in read_documents(*sides)]
    return len(counts), sum(counts)


def _collect(corpus: str, source: str, work: Path) -> tuple[Path, set[str]]:
    """Download the corpus's files, uncompressed, into ``work/files``.

    Returns that directory, and the names of the files that were verified by the source's list of checksums.
    """
    files, fetched, base = work / "files", work / "fetched", source.rstrip("/")
    files.mkdir(parents=True, exist_ok=True)
    if source.lower().endswith(ARCHIVES):
        unpack_corpus(fetch(source, fetched / source.rsplit("/", 1)[-1]), corpus, files)
        return files, set()
    sums = {}
    for folder, prefix in ((base, f"{corpus}/"), (f"{base}/{corpus}", "")):
        if path := _fetch_if_there(f"{folder}/{LIST}", fetched, {}):
            listed = read_sums(path).items()
            # The base directory also has files of other corpora, and archives with the corpus's name.
            sums |= {name.removeprefix(prefix): sha for name, sha in listed if name.startswith((prefix, f"{corpus}."))}
    for name in file_names():
        for ending in () if (files / name).is_file() else COMPRESSIONS:
            url = f"{base}/{corpus}/{name}{ending}"
            if path := _fetch_if_there(url, fetched, sums):
                try:
                    with open(path, "rb") as stream:
                        _write_plain(stream, ending, files / name)
                except _DAMAGE as error:
                    raise UserError(f"{url}: is damaged ({error})") from None
                break
    if any(files.iterdir()):
        return files, {name for name in file_names() if any(name + ending in sums for ending in COMPRESSIONS)}
    for ending in ARCHIVES:
        if archive := _fetch_if_there(f"{base}/{corpus}{ending}", fetched, sums):
            unpack_corpus(archive, corpus, files)
            return files, set(file_names()) if archive.name in sums else set()
    raise UserError(f"{base}: has neither a folder {corpus} with the corpus nor an archive {corpus}.zip")


def _fetch_if_there(url: str, directory: Path, sums: dict[str, str]) -> Path | None:
    """Download a file, if it exists, and verify it by the source's list."""
    folder, name = url.rsplit("/", 1)
    try:
        path = fetch(url, directory / name)
    except NotFound:
        return None
    if name in sums:
        _verify(path, sums[name], f"{LIST} at {folder}")
    return path


def fetch(url: str, target: Path) -> Path:
    """Download ``url`` (http, https or file) to ``target``; return ``target``.

    An existing file is downloaded again, since it may be incomplete. Temporary errors are retried, up to ``ATTEMPTS``
    attempts. Raises NotFound, or UserError for other errors.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    parsed = urllib.parse.urlsplit(url)
    if parsed.scheme == "file":
        source = Path(urllib.request.url2pathname(parsed.path))
        if not source.is_file():
            raise NotFound(f"{url}: no such file there")
        shutil.copyfile(source, target)
        return target
    if parsed.scheme not in ("http", "https"):
        raise UserError(f"{url}: not a valid address; it must begin with https://, http:// or file://")
    logging.getLogger("urllib3").setLevel("WARNING")  # fairseq leaves the root logger at DEBUG
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with requests.get(url, headers={"Accept-Encoding": "identity"}, stream=True, timeout=TIMEOUT) as answer:
                if answer.status_code in (404, 410):
                    raise NotFound(f"{url}: no such file there")
                if not answer.ok and answer.status_code not in PASSING_STATUS:
                    raise UserError(f"{url}: the server refuses ({answer.status_code} {answer.reason})")
                answer.raise_for_status()
                total = int(answer.headers.get("Content-Length") or 0) or None
                with open(target, "wb") as stream, progress(label=target.name, unit="B", total=total) as bar:
                    # Raw: servers may declare a compressed file as compressed for transfer; keep it compressed.
                    while block := answer.raw.read(BLOCK):
                        stream.write(block)
                        bar.update(len(block))
            return target
        except requests.exceptions.InvalidURL as error:
            raise UserError(f"{url}: not a valid address ({error})") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            problem = error
        if attempt < ATTEMPTS:
            time.sleep(attempt)
    raise UserError(f"{url}: cannot be fetched ({problem}); run the command again")


def unpack_corpus(archive: Path, corpus: str, target: Path) -> None:
    """Write the corpus's files, uncompressed, into ``target``.

    From an archive of several corpora only the folder or inner archive with the corpus's name is used. Paths in the
    archive never decide where a file is written. Raises UserError for a damaged archive, or if one file appears twice.
    """
    found: set[str] = set()
    try:
        with open(archive, "rb") as stream:
            for name, compression, member in _members(stream, archive.name, corpus, _names(corpus, archive.name)):
                if name in found:
                    raise UserError(f"{archive}: holds {name} for '{corpus}' more than once; unpack it by hand")
                found.add(name)
                _write_plain(member, compression, target / name)
    except _DAMAGE as error:
        raise UserError(f"{archive.name}: is damaged or no archive ({error}); run the command again") from None


def _write_plain(stream: BinaryIO, compression: str, target: Path) -> None:
    """Decompress (``.gz``, ``.xz`` or nothing) a stream to a file, atomically."""
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(compression, lambda plain, _: plain)
    with atomic_write(target, "wb") as output:
        shutil.copyfileobj(opener(stream, "rb"), output)


def _names(corpus: str, path: str) -> bool:
    """Return whether a path names the corpus: ``data/ted/x``, ``en-de_TED.zip``, but not ``united/x``."""
    return re.search(rf"(?<![a-z]){re.escape(corpus)}(?![a-z])", path.lower()) is not None


def _members(stream: BinaryIO, name: str, corpus: str, everything: bool) -> Iterator[tuple[str, str, BinaryIO]]:
    """Yield (file name, compression, stream) of the corpus's files in an archive and in archives inside it."""
    with _opened(stream, name) as files:
        for path, open_member in files:
            plain = PurePosixPath(path.replace("\\", "/")).name
            belongs = everything or _names(corpus, path)
            if belongs and (match := _CORPUS_FILE.fullmatch(plain)):
                with open_member() as member:
                    yield match[1], match[2] or "", member
            elif belongs and _ARCHIVE.fullmatch(plain.lower()):
                with open_member() as member:
                    inner = io.BytesIO(member.read())  # formats with their index at the end need to seek
                yield from _members(inner, plain, corpus, True)


@contextmanager
def _opened(stream: BinaryIO, name: str):
    """Yield the regular files of an archive, as (path, function that opens)."""
    if name.lower().endswith(".zip"):
        with zipfile.ZipFile(stream) as archive:
            items = [item for item in archive.infolist() if not item.is_dir()]
            yield [(item.filename, lambda item=item: archive.open(item)) for item in items]
    else:
        with tarfile.open(fileobj=stream, mode="r:*") as archive:
            yield [(item.name, lambda item=item: archive.extractfile(item)) for item in archive if item.isfile()]
