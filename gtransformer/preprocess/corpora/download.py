"""Fetch a benchmark corpus of Maruf et al. (2019), verify it and lay it out in the raw corpus format.

A place to fetch from is a folder NAME with the files (plain, ``.xz`` or ``.gz``), an archive ``NAME.zip`` (``.tar.gz``,
``.tar.xz``), or one archive of several corpora, as the public home is: a repository whose archive is fetched whole.
Three lists of checksums can vouch for a file: the pins that come with the recipes (``configs/checksums``), a
``SHA256SUMS`` beside the files at their source, and ``data/NAME.sha256``, which the first download writes.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import open_bytes, sha256
from gtransformer.installation import config_directory, project_root
from gtransformer.preprocess.corpora.checksums import read_sums, verify, write_sums
from gtransformer.preprocess.corpora.transfer import NotFound, fetch
from gtransformer.preprocess.corpora.unpack import DAMAGE, unpack_corpus, write_plain

CORPORA = ("ted", "news", "europarl")
# The data repository of Maruf et al. (2019), whole: it is searched for the files by name, in folders and inner archives
# that bear the corpus's name, so that nothing hangs on how it is laid out.
PUBLIC_HOME = "https://github.com/sameenmaruf/selective-attn/archive/refs/heads/master.zip"
SPLITS = ("train", "dev", "test")
LANGUAGES = ("en", "de")
COMPRESSIONS = ("", ".xz", ".gz")
ARCHIVES = (".zip", ".tar.gz", ".tar.xz")
LIST = "SHA256SUMS"  # of the files as they lie at their source


def file_names() -> list[str]:
    """The six files of a corpus."""
    return [f"concatenated_en2de_{split}_{lang}.txt" for split in SPLITS for lang in LANGUAGES]


def download(corpus: str, data: Path, source: str, accept_changed: bool = False) -> Path:
    """Fetch, verify and lay out one corpus; returns its directory ``data/corpus``.

    Everything is collected in ``data/.corpus.download`` and verified there; only then the directory appears. What was
    fetched stays there when the source cannot be reached, for the next run; after a wrong checksum nothing is kept.

    Raises UserError for an unreachable source, a missing file, a wrong checksum, files that are no corpus.
    """
    target, work, lock = data / corpus, data / f".{corpus}.download", data / f"{corpus}.sha256"
    known = {name: (digest, str(lock)) for name, digest in (read_sums(lock) if lock.is_file() else {}).items()}
    known |= {name: (digest, f"configs/checksums/{corpus}.sha256") for name, digest in pinned(corpus).items()}
    if target.is_dir():
        require_files(target, str(target), target)
        try:
            hold_against(target, known, accept_changed)
        except UserError as error:
            raise UserError(f"in {target}: {error}; or remove {target} and fetch the corpus again") from None
        print(f"{target}: there already, {len(known)} of {len(file_names())} checksums known and right")
        return target
    print(f"fetching {corpus} from {source}")
    files, vouched = collect(corpus, source, work)
    require_files(files, source, target)
    try:
        hold_against(files, known, accept_changed)
        counts = {split: check_pair(files, split) for split in SPLITS}
    except UserError:
        shutil.rmtree(work)  # fetched once more it may be right
        raise
    write_sums(lock, {name: sha256(files / name) for name in file_names()})
    os.replace(files, target)
    shutil.rmtree(work)
    for split, (documents, sentences) in counts.items():
        print(f"  {split}: {documents} documents, {sentences} sentences")
    report_unverified(lock, [name for name in file_names() if name not in vouched | known.keys()])
    return target


def report_unverified(lock: Path, names: list[str]) -> None:
    """Say which files no checksum could vouch for."""
    if names:
        print(f"warning: no checksum is known of {len(names)} files, so they are unverified. Those of what came were")
        print(f"written to {lock}, against which later downloads are verified:")
        sums = read_sums(lock)
        for name in names:
            print(f"  {sums[name]}  {name}")


def require_files(directory: Path, source: str, target: Path) -> None:
    """Raise UserError unless all six files are there."""
    missing = [name for name in file_names() if not (directory / name).is_file()]
    if missing:
        raise UserError(
            f"{source}: lacks {', '.join(missing)}; put the files of the corpus into {target} by hand, or name another "
            "place in GTRANSFORMER_MIRROR"
        )


def pinned(corpus: str) -> dict[str, str]:
    """The checksums that come with the recipes; none for a corpus of which no trustworthy copy was at hand."""
    path = config_directory() / "checksums" / f"{corpus}.sha256"
    return read_sums(path) if path.is_file() else {}


def hold_against(directory: Path, known: dict[str, tuple[str, str]], accept_changed: bool) -> None:
    """Verify files against {name: (checksum, who says so)}. A wrong one is an error, or if accepted a warning."""
    for name, (expected, source) in known.items():
        try:
            verify(directory / name, expected, source)
        except UserError as error:
            if not accept_changed:
                raise UserError(f"{error} (if you know that it is right, add --accept-changed)") from None
            print(f"warning: {error}: taken all the same, as --accept-changed says", file=sys.stderr)


def collect(corpus: str, source: str, work: Path) -> tuple[Path, set[str]]:
    """Bring the corpus's files, uncompressed, into ``work/files``.

    Returns that directory, and the names of the files that were verified by the source's own list of checksums.
    """
    files, fetched = work / "files", work / "fetched"
    files.mkdir(parents=True, exist_ok=True)
    if source.lower().endswith(ARCHIVES):
        unpack_corpus(fetch(source, fetched / source.rsplit("/", 1)[-1]), corpus, files)
        return files, set()
    base = source.rstrip("/")
    sums = source_sums(base, corpus, fetched)
    for name in file_names():
        if not (files / name).is_file():
            fetch_any(base, corpus, name, sums, fetched, files)
    if any(files.iterdir()):
        return files, {name for name in file_names() if any(name + ending in sums for ending in COMPRESSIONS)}
    for ending in ARCHIVES:
        try:
            archive = fetch_verified(f"{base}/{corpus}{ending}", fetched, sums)
        except NotFound:
            continue
        unpack_corpus(archive, corpus, files)
        return files, set(file_names()) if archive.name in sums else set()
    raise UserError(f"{base}: has neither a folder {corpus} with the corpus nor an archive {corpus}.zip")


def source_sums(base: str, corpus: str, fetched: Path) -> dict[str, str]:
    """The lists of checksums at the source, if there are any: of the whole place, and of the corpus's folder."""
    sums = {}
    for url in (f"{base}/{LIST}", f"{base}/{corpus}/{LIST}"):
        try:
            listed = read_sums(fetch(url, fetched / LIST))
        except NotFound:
            continue
        whole = url == f"{base}/{LIST}"
        sums |= {
            name.removeprefix(f"{corpus}/"): digest
            for name, digest in listed.items()
            if not whole or name.startswith((f"{corpus}/", f"{corpus}."))
        }
    return sums


def fetch_verified(url: str, directory: Path, sums: dict[str, str]) -> Path:
    """Fetch a file and hold it against the source's list; a wrong one is removed, for the next run."""
    path = fetch(url, directory / url.rsplit("/", 1)[-1])
    if path.name in sums:
        try:
            verify(path, sums[path.name], f"{LIST} at {url.rsplit('/', 1)[0]}")
        except UserError:
            path.unlink()
            raise
    return path


def fetch_any(base: str, corpus: str, name: str, sums: dict[str, str], fetched: Path, files: Path) -> None:
    """Fetch one file in whatever compression it is there; nothing happens if in none."""
    for ending in COMPRESSIONS:
        try:
            path = fetch_verified(f"{base}/{corpus}/{name}{ending}", fetched, sums)
        except NotFound:
            continue
        try:
            with open(path, "rb") as stream:
                write_plain(stream, ending, files / name)
        except DAMAGE as error:
            raise UserError(f"{base}/{corpus}/{path.name}: is damaged ({error})") from None
        finally:
            path.unlink()
        return


def check_pair(directory: Path, split: str) -> tuple[int, int]:
    """(documents, sentences) of a split. Raises UserError unless both sides have as many lines and ``<d>`` lines."""
    counts = []
    for lang in LANGUAGES:
        with open_bytes(directory / f"concatenated_en2de_{split}_{lang}.txt") as stream:
            marks = [line.strip() == b"<d>" for line in stream]
        counts.append((sum(marks), len(marks) - sum(marks)))
    (documents, sentences), other = counts
    if counts[0] != other or not documents:
        raise UserError(
            f"concatenated_en2de_{split}_*.txt: no aligned documents: {documents} and {other[0]} lines <d>, "
            f"{sentences} and {other[1]} sentences"
        )
    return documents, sentences


def data_directory() -> Path:
    """$DATA, or data/ in the checkout (in the working directory where there is none)."""
    return Path(os.environ.get("DATA") or project_root() / "data")
