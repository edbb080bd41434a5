"""LibreOffice's help as a raw corpus: pages of HTML whose paragraphs have the same id in every language.

Debian packages hold one language each (``libreoffice-help-en-us``, ``-pt-br``, ``-de``; Mozilla Public License 2.0). A
page is a document. The corpus has files ``ids_{train,dev,test}.txt`` beside its texts, line by line: ``<d>`` and
``PAGE#PARAGRAPH``.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, sha256
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.corpus import SPLITS, Pair, document_lines, raw_file, write_pairs
from gtransformer.preprocess.download import file_names, known_sums, read_counts, verify_known, write_sums

LIBREOFFICE = "libreoffice"
SOURCE = "en"
# Language -> its folder in the packages; a package is named after the folder in small letters.
FOLDERS = {"en": "en-US", "pt": "pt-BR", "de": "de"}
TARGETS = [lang for lang in FOLDERS if lang != SOURCE]
HELD_OUT = {"test": 120, "dev": 60}  # documents, where as many can be had
SHORT = 5  # words; paragraphs of so few ("See also") may be in training as well as in the test set
SHORT_DOCUMENT = 5  # paragraphs; documents of fewer are not held out
_PAGE = re.compile(r"(?:.*/)?help/([\w-]+)/text/(.+)\.html")
_HEADER, _MAGIC = 60, b"!<arch>\n"  # of an ar archive, bytes
_BLOCKS = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6"))

Page = dict[str, str]  # id of a paragraph -> its text, in their order
Document = dict[str, Pair]


def get_help(data: Path, target_lang: str, packages: Sequence[Path] = (), accept_changed: bool = False) -> Path:
    """Fetch the packages of English and another language and write ``data/libreoffice-en-LANG``; returns that folder.

    Args:
        packages: the packages' files, where they are there already; else ``apt-get download`` fetches them.
        accept_changed: as of ``download``.

    Raises UserError where apt-get is missing or fails, for a file that is no package or damaged, for packages without
    a language, and for checksums other than those of an earlier time.
    """
    langs = (SOURCE, target_lang)
    corpus = f"{LIBREOFFICE}-{'-'.join(langs)}"
    target, work, lock = data / corpus, data / f".{corpus}.download", data / f"{corpus}.sha256"
    names = [*file_names(langs), *(ids_file(Path(), split).name for split in SPLITS)]
    known = known_sums(corpus, data)
    if target.is_dir():
        verify_known(target, known, accept_changed, f"; or remove {target} and fetch the corpus again")
        print(f"{target}: there already, {len(known)} of {len(names)} checksums known and right")
        return target
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        packages = packages or fetch_packages(langs, work)
        documents = pair_pages(*read_packages(packages, langs))
        split, candidates = split_documents(documents)
        files = work / "files"
        counts = {part: _write(files, langs, part, {page: documents[page] for page in split[part]}) for part in SPLITS}
        verify_known(files, known, accept_changed)
        comments = [f"{path.name} (MPL-2.0), SHA-256 {sha256(path)}" for path in packages]
        write_sums(lock, files, names, comments)
        os.replace(files, target)
    finally:
        shutil.rmtree(work)
    for part, (sizes, distinct) in counts.items():
        print(f"  {part}: {sizes[0]} documents, {sizes[1]} pairs, {distinct} of them distinct")
    everything = Counter(pair for document in documents.values() for pair in document.values())
    print(f"  in all: {len(documents)} documents, {everything.total()} pairs, {len(everything)} of them distinct")
    print(f"  held out from {candidates} documents of at least {SHORT_DOCUMENT} paragraphs that share no paragraph of")
    print(f"  more than {SHORT} words with another document, on either side")
    return target


def ids_file(folder: Path, split: str) -> Path:
    """Return where the ids of a split's paragraphs lie."""
    return folder / f"ids_{split}.txt"


def _write(folder: Path, langs: Sequence[str], split: str, documents: dict[str, Document]) -> tuple[tuple, int]:
    """Write a split; its numbers of documents and pairs, and how many pairs are distinct."""
    paths = [raw_file(folder, langs, split, lang) for lang in langs]
    written = list(write_pairs(paths, ([*document.values()] for document in documents.values())))
    with atomic_write(ids_file(folder, split)) as stream:
        ids = ([paragraph_id(page, one) for one in document] for page, document in documents.items())
        stream.writelines(document_lines(ids))
    # What is counted is what is read from the files, so that nothing is accepted which preparing would refuse.
    return read_counts(folder, split, langs), len({pair for document in written for pair in document})


def paragraph_id(page: str, paragraph: str) -> str:
    """Return the id of a paragraph in the whole corpus."""
    return f"{page}#{paragraph}"


def package_name(lang: str) -> str:
    """Return what Debian calls the package of a language."""
    return f"libreoffice-help-{FOLDERS[lang].lower()}"


def fetch_packages(langs: Sequence[str], folder: Path) -> list[Path]:
    """Fetch the packages of languages with ``apt-get download`` into an empty folder; UserError where that fails."""
    names = [package_name(lang) for lang in langs]
    wanted = " and ".join(names)
    print(f"fetching {wanted} with apt-get")
    command = ["apt-get", "download", *names]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except OSError:
        raise UserError(
            f"apt-get: is not on this machine; fetch {wanted} from https://packages.debian.org and name the files "
            "with --packages"
        ) from None
    packages = sorted(folder.glob("*.deb"))
    if done.returncode or len(packages) < len(names):
        said = next((line for line in done.stderr.splitlines() if line.startswith("E:")), f"status {done.returncode}")
        raise UserError(
            f"apt-get download: failed ({said}); run apt-get update, or fetch {wanted} from "
            "https://packages.debian.org and name the files with --packages"
        )
    return packages


def read_packages(packages: Iterable[Path], langs: Sequence[str]) -> list[dict[str, Page]]:
    """Return for each language its pages by name (``swriter/01/02110000``); UserError where packages have none."""
    packages = list(packages)
    pages: dict[str, dict[str, Page]] = defaultdict(dict)
    for path in packages:
        for folder, name, html in package_pages(path):
            if folder in (FOLDERS[lang] for lang in langs):
                pages[folder][name] = read_page(html)
    for lang in langs:
        if FOLDERS[lang] not in pages:
            named = ", ".join(map(str, packages))
            raise UserError(f"{named}: no pages of help in {FOLDERS[lang]}; add the package {package_name(lang)}")
    return [dict(sorted(pages[FOLDERS[lang]].items())) for lang in langs]


def package_pages(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (folder of a language, name, HTML) of the pages of a package; UserError where it is none or damaged."""
    try:
        with tarfile.open(fileobj=io.BytesIO(_package_data(path))) as archive:
            for member in archive:
                if member.isfile() and (match := _PAGE.fullmatch(member.name)):
                    yield match[1], match[2], archive.extractfile(member).read().decode()
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: the package is damaged ({error}); fetch it again") from None


def _package_data(path: Path) -> bytes:
    """The archive of a package's files, as it lies in the package, an archive of the format ar."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; name a Debian package")
    package = path.read_bytes()
    if not package.startswith(_MAGIC):
        raise UserError(f"{path}: is no Debian package; name a file like libreoffice-help-de_VERSION_all.deb")
    at = len(_MAGIC)
    while header := package[at : at + _HEADER]:
        name, size = header[:16].decode("latin-1").rstrip(" /"), header[48:58].strip()
        end = at + _HEADER + int(size) if size.isdigit() else len(package) + 1
        if end > len(package):
            break
        if name == "data.tar.zst":  # which Python unpacks from 3.14 on
            return _unpacked(path)
        if name.startswith("data.tar"):
            return package[at + _HEADER : end]
        at = end + end % 2
    raise UserError(f"{path}: the package is damaged (its files are missing or cut off); fetch it again")


def _unpacked(path: Path) -> bytes:
    """What dpkg-deb makes of a package: the archive of its files, uncompressed."""
    try:
        done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], capture_output=True, check=False)
    except OSError:
        raise UserError(f"{path}: is packed with zstd and needs dpkg-deb; take Debian's package instead") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise UserError(f"{path}: the package is damaged ({said}); fetch it again")
    return done.stdout


class _Paragraphs(HTMLParser):
    """Collects ``found``: the text of each paragraph and heading that has an id, by this id, the first one of it.

    Within a paragraph there are words for one system or application, of which a browser shows one. Taken is what is
    called the default, or the first that is not for macOS.
    """

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.found: Page = {}
        self._id, self._tag = "", ""
        self._texts: list[list[str]] = []  # of the paragraph, and of the alternatives that are open in it
        # For each open span: None; for a switch its alternatives as (rank, text); for an alternative its rank.
        self._spans: list[list[tuple[int, str]] | int | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag in _BLOCKS:
            self._end()
            if given.get("id"):
                self._id, self._tag, self._texts, self._spans = given["id"], tag, [[]], []
        elif not self._id:
            return
        elif tag == "br":
            self._texts[-1].append(" ")
        elif tag == "span" and given.get("class") in ("switchinline", "switch"):
            self._spans.append([])
        elif tag == "span" and "hidden" in given:
            rank = 0 if given.get("id", "").startswith("default") else 2 if given.get("id", "").startswith("MAC") else 1
            self._spans.append(rank)
            self._texts.append([])
        elif tag == "span":
            self._spans.append(None)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._tag:
            self._end()
        elif tag == "span" and self._spans:
            span = self._spans.pop()
            if isinstance(span, int):
                text = "".join(self._texts.pop())
                switch = next((one for one in reversed(self._spans) if isinstance(one, list)), None)
                if switch is not None:
                    switch.append((span, text))
            elif span:
                self._texts[-1].append(min(span, key=lambda alternative: alternative[0])[1])

    def handle_data(self, data: str) -> None:
        if self._id:
            self._texts[-1].append(data)

    def close(self) -> None:
        super().close()
        self._end()

    def _end(self) -> None:
        if self._id:
            text = "".join(part for texts in self._texts for part in texts)
            self.found.setdefault(self._id, " ".join(clean_line(text).split()))
        self._id = self._tag = ""


def read_page(html: str) -> Page:
    """Return the paragraphs of a page in their order: plain text, one blank between words; empty ones too."""
    parser = _Paragraphs()
    parser.feed(html)
    parser.close()
    return parser.found


def pair_pages(source: dict[str, Page], target: dict[str, Page]) -> dict[str, Document]:
    """Pair paragraphs of the same page and id, in the source's order, where neither is empty."""
    documents = {}
    for name, page in source.items():
        other = target.get(name, {})
        if document := {one: (text, other[one]) for one, text in page.items() if text and other.get(one)}:
            documents[name] = document
    return documents


def split_documents(documents: dict[str, Document]) -> tuple[dict[str, list[str]], int]:
    """Choose names of documents for train, dev and test; also returned: how many could be held out.

    These are documents that share no paragraph of more than ``SHORT`` words, on either side, with any other document.
    They are chosen by the digest of their names, so that other languages and versions hold out much the same.

    Raises UserError where there are too few.
    """
    owners: Counter[tuple[int, str]] = Counter()
    for document in documents.values():
        owners.update(_long_texts(document))
    free = [name for name, document in documents.items() if all(owners[text] == 1 for text in _long_texts(document))]
    free = [name for name in free if len(documents[name]) >= SHORT_DOCUMENT]
    order = sorted(free, key=lambda name: hashlib.sha256(name.encode()).digest())
    tested = min(HELD_OUT["test"], len(order) // 2)
    validated = min(HELD_OUT["dev"], len(order) // 4)
    if not validated or len(documents) == tested + validated:
        raise UserError(
            f"{LIBREOFFICE}: only {len(free)} of {len(documents)} documents could be held out; give whole packages of "
            "the same version"
        )
    chosen = dict.fromkeys(order[:tested], "test") | dict.fromkeys(order[tested : tested + validated], "dev")
    return {split: [name for name in documents if chosen.get(name, "train") == split] for split in SPLITS}, len(free)


def _long_texts(document: Document) -> set[tuple[int, str]]:
    """The texts of more than ``SHORT`` words with their side; upper and lower case are the same."""
    texts = ((side, text.lower()) for pair in document.values() for side, text in enumerate(pair))
    return {(side, text) for side, text in texts if len(text.split()) > SHORT}
