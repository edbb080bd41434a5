"""Fetch a benchmark corpus of Maruf et al. (2019), verify it and lay it out in the raw corpus format.

A place to fetch from is a folder NAME with the files (plain, ``.xz`` or ``.gz``), an archive ``NAME.zip`` (``.tar.gz``,
``.tar.xz``), or one archive of several corpora, as the public home is: a repository whose archive is fetched whole.
Three lists of checksums can vouch for a file: the pins that come with the recipes (``configs/checksums``), a
``SHA256SUMS`` beside the files at their source, and ``data/NAME.sha256``, which the first download writes.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import requests

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, open_bytes, read_lines, sha256
from gtransformer.installation import config_directory, project_root
from gtransformer.preprocess.corpus import SPLITS, fault, raw_file
from gtransformer.preprocess.parallel import progress

CORPORA = ("ted", "news", "europarl")
# The data repository of Maruf et al. (2019), whole: it is searched for the files by name, in folders and inner archives
# that bear the corpus's name, so that nothing hangs on how it is laid out.
PUBLIC_HOME = "https://github.com/sameenmaruf/selective-attn/archive/refs/heads/master.zip"
LANGUAGES = ("en", "de")
COMPRESSIONS = ("", ".xz", ".gz")
ARCHIVES = (".zip", ".tar.gz", ".tar.xz")
LIST = "SHA256SUMS"  # of the files as they lie at their source
_SUM = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_CORPUS_FILE = re.compile(r"(concatenated_[a-z]+2[a-z]+_(?:train|dev|test)_[a-z]+\.txt)(\.gz|\.xz)?")
_ARCHIVE = re.compile(r".+\.(zip|tar|tar\.gz|tgz|tar\.xz|txz|tar\.bz2|tbz2)")
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, EOFError)
BLOCK = 10_000  # bytes; of what came before a break, the last block may be lost
TIMEOUT = 60  # seconds without a byte
ATTEMPTS = 4
# What may go away by itself, or by beginning anew (416); anything else (forbidden) will not.
PASSING_STATUS = (408, 416, 429, 500, 502, 503, 504)


class NotFound(UserError):
    """The address answers that it has no such file."""


def file_names() -> list[str]:
    """Return the names of the six files of a corpus."""
    return [raw_file(Path(), LANGUAGES, split, lang).name for split in SPLITS for lang in LANGUAGES]


def data_directory() -> Path:
    """Return $DATA, or data/ in the checkout (in the working directory where there is none)."""
    return Path(os.environ.get("DATA") or project_root() / "data")


def download(corpus: str, data: Path, source: str, accept_changed: bool = False) -> Path:
    """Fetch, verify and lay out one corpus; returns its directory ``data/corpus``.

    Everything is collected in ``data/.corpus.download`` and verified there; only then the directory appears. What was
    fetched stays there when the source cannot be reached, for the next run; after a wrong checksum nothing is kept.

    Raises UserError for an unreachable source, a missing file, a wrong checksum, files that are no corpus.
    """
    target, work, lock = data / corpus, data / f".{corpus}.download", data / f"{corpus}.sha256"
    known = {}
    for path, said in ((lock, str(lock)), (pins(corpus), f"configs/checksums/{corpus}.sha256")):
        if path.is_file():
            known |= {name: (digest, said) for name, digest in read_sums(path).items()}
    if target.is_dir():
        _require_files(target, str(target), target)
        try:
            _verify_known(target, known, accept_changed)
        except UserError as error:
            raise UserError(f"in {target}: {error}; or remove {target} and fetch the corpus again") from None
        print(f"{target}: there already, {len(known)} of {len(file_names())} checksums known and right")
        return target
    print(f"fetching {corpus} from {source}")
    files, vouched = _collect(corpus, source, work)
    _require_files(files, source, target)
    try:
        _verify_known(files, known, accept_changed)
        counts = {split: _count(files, split) for split in SPLITS}
    except UserError:
        shutil.rmtree(work)  # fetched once more it may be right
        raise
    sums = {name: sha256(files / name) for name in file_names()}
    with atomic_write(lock) as stream:
        stream.writelines(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    os.replace(files, target)
    shutil.rmtree(work)
    for split, (documents, sentences) in counts.items():
        print(f"  {split}: {documents} documents, {sentences} sentences")
    unverified = [name for name in file_names() if name not in vouched | known.keys()]
    if unverified:
        print(f"warning: no checksum is known of {len(unverified)} files, so they are unverified. Those of what came")
        print(f"were written to {lock}, against which later downloads are verified:")
        for name in unverified:
            print(f"  {sums[name]}  {name}")
    return target


def pins(corpus: str) -> Path:
    """Return the list of checksums that comes with the recipes; not there where no trustworthy copy was at hand."""
    return config_directory() / "checksums" / f"{corpus}.sha256"


def read_sums(path: Path) -> dict[str, str]:
    """Read a list of sha256sum: file name -> SHA-256; lines with ``#`` are comments. UserError with file and line."""
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
    """Raise UserError unless the file's SHA-256 is ``expected``, as ``source`` says."""
    actual = sha256(path)
    if actual != expected:
        raise UserError(
            f"{path.name}: wrong checksum: SHA-256 is {actual}, but {source} says {expected}; the file is damaged "
            "or was changed"
        )


def _verify_known(directory: Path, known: dict[str, tuple[str, str]], accept_changed: bool) -> None:
    """Verify files against {name: (checksum, who says so)}. A wrong one is an error, or if accepted a warning."""
    for name, (expected, source) in known.items():
        try:
            _verify(directory / name, expected, source)
        except UserError as error:
            if not accept_changed:
                raise UserError(f"{error} (if you know that it is right, add --accept-changed)") from None
            print(f"warning: {error}: taken all the same, as --accept-changed says", file=sys.stderr)


def _require_files(directory: Path, source: str, target: Path) -> None:
    missing = [name for name in file_names() if not (directory / name).is_file()]
    if missing:
        raise UserError(
            f"{source}: lacks {', '.join(missing)}; put the files of the corpus into {target} by hand, or name another "
            "place in GTRANSFORMER_MIRROR"
        )


def _count(directory: Path, split: str) -> tuple[int, int]:
    """(documents, sentences) of a split. Raises UserError unless both sides have as many lines and ``<d>`` lines."""
    counts = []
    for lang in LANGUAGES:
        with open_bytes(raw_file(directory, LANGUAGES, split, lang)) as stream:
            marks = [line.strip() == b"<d>" for line in stream]
        counts.append((sum(marks), len(marks) - sum(marks)))
    (documents, sentences), other = counts
    if counts[0] != other or not documents:
        raise UserError(
            f"concatenated_en2de_{split}_*.txt: no aligned documents: {documents} and {other[0]} lines <d>, "
            f"{sentences} and {other[1]} sentences"
        )
    return documents, sentences


def _collect(corpus: str, source: str, work: Path) -> tuple[Path, set[str]]:
    """Bring the corpus's files, uncompressed, into ``work/files``.

    Returns that directory, and the names of the files that were verified by the source's own list of checksums.
    """
    files, fetched, base = work / "files", work / "fetched", source.rstrip("/")
    files.mkdir(parents=True, exist_ok=True)
    if source.lower().endswith(ARCHIVES):
        unpack_corpus(fetch(source, fetched / source.rsplit("/", 1)[-1]), corpus, files)
        return files, set()
    sums = {}
    for folder in (base, f"{base}/{corpus}"):
        if path := _fetch_if_there(f"{folder}/{LIST}", fetched, {}):
            listed = read_sums(path)
            if folder == base:
                listed = {name: one for name, one in listed.items() if name.startswith((f"{corpus}/", f"{corpus}."))}
            sums |= {name.removeprefix(f"{corpus}/"): digest for name, digest in listed.items()}
    for name in file_names():
        if not (files / name).is_file():
            for ending in COMPRESSIONS:
                url = f"{base}/{corpus}/{name}{ending}"
                if path := _fetch_if_there(url, fetched, sums):
                    try:
                        with open(path, "rb") as stream:
                            _write_plain(stream, ending, files / name)
                    except _DAMAGE as error:
                        raise UserError(f"{url}: is damaged ({error})") from None
                    finally:
                        path.unlink()
                    break
    if any(files.iterdir()):
        return files, {name for name in file_names() if any(name + ending in sums for ending in COMPRESSIONS)}
    for ending in ARCHIVES:
        if archive := _fetch_if_there(f"{base}/{corpus}{ending}", fetched, sums):
            unpack_corpus(archive, corpus, files)
            return files, set(file_names()) if archive.name in sums else set()
    raise UserError(f"{base}: has neither a folder {corpus} with the corpus nor an archive {corpus}.zip")


def _fetch_if_there(url: str, directory: Path, sums: dict[str, str]) -> Path | None:
    """Fetch a file and hold it against the source's list; a wrong one is removed, for the next run."""
    try:
        path = fetch(url, directory / url.rsplit("/", 1)[-1])
    except NotFound:
        return None
    if path.name in sums:
        try:
            _verify(path, sums[path.name], f"{LIST} at {url.rsplit('/', 1)[0]}")
        except UserError:
            path.unlink()
            raise
    return path


def fetch(url: str, target: Path) -> Path:
    """Fetch ``url`` (http, https or file) to ``target``; returns ``target``.

    What came over http before a transfer broke off stays as ``target.part``, for the next attempt or the next run.
    Passing troubles are tried ``ATTEMPTS`` times. Raises NotFound, or UserError for anything else.
    """
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https", "file"):
        raise UserError(f"{url}: no address to fetch from; it must begin with https://, http:// or file://")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    logging.getLogger("urllib3").setLevel("WARNING")  # fairseq leaves the root logger at DEBUG
    part = target.with_name(f"{target.name}.part")
    version = part.with_name(f"{part.name}.version")  # ETag or date of change of what the part is of
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if scheme == "file":
                shutil.copyfile(urllib.request.url2pathname(urllib.parse.urlsplit(url).path), part)
            else:
                _transfer(url, part, version)
            break
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            part.unlink(missing_ok=True)
            raise NotFound(f"{url}: no such file there") from None
        except requests.exceptions.InvalidURL as error:
            raise UserError(f"{url}: no address to fetch from ({_problem(error)})") from None
        except requests.RequestException as error:
            if attempt == ATTEMPTS:
                raise UserError(
                    f"{url}: cannot be fetched ({_problem(error)}); run the command again, it resumes where it stopped"
                ) from None
            time.sleep(attempt)
    os.replace(part, target)
    version.unlink(missing_ok=True)
    return target


def _transfer(url: str, part: Path, version: Path) -> None:
    """Fetch a file over http; what ``part`` holds is continued if the server has still the same file."""
    have = part.stat().st_size if part.is_file() else 0
    same = version.read_text(encoding="utf-8") if have and version.is_file() else ""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-", "If-Range": same} if same else {})
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        if answer.status_code in (404, 410):
            raise FileNotFoundError
        if not answer.ok and answer.status_code not in PASSING_STATUS:
            raise UserError(f"{url}: the server refuses ({answer.status_code} {answer.reason})")
        if answer.status_code == 416:  # the part is longer than the file has become
            part.unlink()
        answer.raise_for_status()
        answer.raw.headers.pop("Content-Encoding", None)  # of a packed file servers say it is; it stays packed
        version.write_text(answer.headers.get("ETag") or answer.headers.get("Last-Modified") or "", encoding="utf-8")
        resumed = answer.status_code == 206
        total = int(answer.headers.get("Content-Length") or 0) + have * resumed
        with (
            open(part, "ab" if resumed else "wb") as stream,
            progress(label=part.stem, unit="B", total=total or None, initial=have * resumed) as bar,
        ):
            for block in answer.iter_content(BLOCK):
                stream.write(block)
                bar.update(len(block))


def _problem(error: requests.RequestException) -> str:
    """What went wrong, without what urllib3 and requests wrap around it."""
    if isinstance(error, requests.HTTPError):
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "broke off"
    root: BaseException = error
    while root.__context__ is not None:
        root = root.__context__
    return getattr(root, "strerror", None) or str(root) or type(root).__name__


def unpack_corpus(archive: Path, corpus: str, target: Path) -> None:
    """Write the corpus's files, uncompressed, into ``target``.

    An archive may hold several corpora: then the folder, or the inner archive, that bears the corpus's name counts.
    Names in the archive only say what a file is, never where it is written. Raises UserError for a damaged archive, or
    if one file appears twice.
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
        archive.unlink()  # the next run fetches it anew
        raise UserError(f"{archive.name}: is damaged or no archive ({error}); run the command again") from None


def _write_plain(stream: BinaryIO, compression: str, target: Path) -> None:
    """Decompress (``.gz``, ``.xz`` or nothing) a stream to a file, atomically."""
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(compression, lambda plain, _: plain)
    with atomic_write(target, "wb") as output:
        shutil.copyfileobj(opener(stream, "rb"), output)


def _names(corpus: str, path: str) -> bool:
    """Whether a part of a path names the corpus: ``data/ted/x``, ``en-de_TED.zip``, but not ``united/x``."""
    return re.search(rf"(?<![a-z]){re.escape(corpus)}(?![a-z])", path.lower()) is not None


def _members(stream: BinaryIO, name: str, corpus: str, everything: bool) -> Iterator[tuple[str, str, BinaryIO]]:
    """(file name, compression, bytes) of the corpus's files in an archive and in archives inside it."""
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
    """The regular files of an archive, as (path, function that opens)."""
    if name.lower().endswith(".zip"):
        with zipfile.ZipFile(stream) as archive:
            items = [item for item in archive.infolist() if not item.is_dir()]
            yield [(item.filename, lambda item=item: archive.open(item)) for item in items]
    else:
        with tarfile.open(fileobj=stream, mode="r:*") as archive:
            yield [(item.name, lambda item=item: archive.extractfile(item)) for item in archive if item.isfile()]
