"""Make a raw corpus of LibreOffice's help.

It is pages of HTML, whose paragraphs have the same id in every language. Debian packages hold one
language each (``libreoffice-help-en-us``, ``-pt-br``, ``-de``; Mozilla Public License 2.0). A page
is a document. ``gtransformer lab libreoffice -t pt`` writes ``data/libreoffice-en-pt``, which also
has files ``ids_{train,dev,test}.txt``, line by line with its texts: ``<d>`` and ``PAGE#PARAGRAPH``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError
from gtransformer.files import atomic_write
from gtransformer.installation import data_directory
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.corpus import SPLITS, Pair, document_lines
from gtransformer.preprocess.formats import write_split

SOURCE = "en"
# Language -> its folder in the packages; a package is named after the folder in small letters.
FOLDERS = {"en": "en-US", "pt": "pt-BR", "de": "de"}
TARGETS = [lang for lang in FOLDERS if lang != SOURCE]
HELD_OUT = {"test": 120, "dev": 60}  # documents, where as many can be had
SHORT = 5  # words; paragraphs of so few ("See also") may be in training as well as in the test set
SHORT_DOCUMENT = 5  # paragraphs; documents of fewer are not held out
_PAGE = re.compile(r"(?:.*/)?help/([\w-]+)/text/(.+)\.html")
_BLOCKS = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6"))

Page = dict[str, str]  # id of a paragraph -> its text, in their order
Document = dict[str, Pair]


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--data", type=Path, help="directory of corpora (default: $DATA, else data in the checkout)"
    )
    parser.add_argument(
        "-t",
        "--target-lang",
        choices=TARGETS,
        default=TARGETS[0],
        help="target language (default: pt)",
    )
    parser.add_argument(
        "--packages",
        type=Path,
        nargs="+",
        metavar="DEB",
        help="Debian packages of both languages (default: fetch them by apt-get download)",
    )


def main(args: argparse.Namespace) -> None:
    """Read the packages, divide the documents into splits, write these and print counts."""
    langs = (SOURCE, args.target_lang)
    folder = (args.data or data_directory()) / f"libreoffice-{'-'.join(langs)}"
    with tempfile.TemporaryDirectory() as temporary:
        packages = args.packages or fetch_packages(langs, Path(temporary))
        documents = pair_pages(*read_packages(packages, langs))
    for split, names in split_documents(documents).items():
        written = write_split(folder, split, langs, ([*documents[name].values()] for name in names))
        with atomic_write(ids_file(folder, split)) as stream:
            ids = ([f"{name}#{paragraph}" for paragraph in documents[name]] for name in names)
            stream.writelines(document_lines(ids))
        print(f"{split}: {written.documents} documents, {written.sentences} sentences")
    print(f"corpus: {folder}")


def ids_file(folder: Path, split: str) -> Path:
    """Return where the ids of a split's paragraphs lie."""
    return folder / f"ids_{split}.txt"


def fetch_packages(langs: Sequence[str], folder: Path) -> list[Path]:
    """Fetch the packages of languages with ``apt-get download`` into an empty folder."""
    names = [f"libreoffice-help-{FOLDERS[lang].lower()}" for lang in langs]
    subprocess.run(["apt-get", "download", *names], cwd=folder, check=True)
    return sorted(folder.glob("*.deb"))


def read_packages(packages: Iterable[Path], langs: Sequence[str]) -> list[dict[str, Page]]:
    """Return for each language its pages by name (``swriter/01/02110000``). Raise UserError if it
    has none."""
    pages: dict[str, dict[str, Page]] = {FOLDERS[lang]: {} for lang in langs}
    for package in packages:
        for folder, name, html in package_pages(package):
            if folder in pages:
                pages[folder][name] = read_page(html)
    for folder, found in pages.items():
        if not found:
            raise UserError(f"no pages of help in {folder}; add its package to --packages")
    return [dict(sorted(found.items())) for found in pages.values()]


def package_pages(package: Path) -> Iterator[tuple[str, str, str]]:
    """Yield folder of a language, name and HTML of each page of a Debian package."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    files = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        for member in archive:
            if member.isfile() and (match := _PAGE.fullmatch(member.name)):
                yield match[1], match[2], archive.extractfile(member).read().decode()


class _Paragraphs(HTMLParser):
    """Collects ``found``: the text of each paragraph and heading that has an id, by this id, the
    first one of it.

    Within a paragraph there are words for one system or application, of which a browser shows one.
    The one called the default counts, or else the first that is not for macOS.
    """

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.found: Page = {}
        self._id, self._tag = "", ""
        # Of the paragraph, and of the alternatives that are open in it.
        self._texts: list[list[str]] = []
        # For each open span: None; for a switch its alternatives as (rank, text); for an
        # alternative its rank.
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
            rank = (
                0
                if given.get("id", "").startswith("default")
                else 2
                if given.get("id", "").startswith("MAC")
                else 1
            )
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
    """Return the paragraphs of a page in their order: plain text, one blank between words; empty
    ones too."""
    parser = _Paragraphs()
    parser.feed(html)
    parser.close()
    return parser.found


def pair_pages(source: dict[str, Page], target: dict[str, Page]) -> dict[str, Document]:
    """Pair paragraphs of the same page and id, in the source's order, where neither is empty."""
    documents = {}
    for name, page in source.items():
        other = target.get(name, {})
        if document := {
            one: (text, other[one]) for one, text in page.items() if text and other.get(one)
        }:
            documents[name] = document
    return documents


def split_documents(documents: dict[str, Document]) -> dict[str, list[str]]:
    """Choose the names of the documents for train, dev and test.

    Those of dev and test share no paragraph of more than ``SHORT`` words, on either side, with any
    other document. They are chosen by the digest of their names, so that other languages and
    versions hold out much the same.

    Raises UserError where there are too few.
    """
    owners: Counter[tuple[int, str]] = Counter()
    for document in documents.values():
        owners.update(_long_texts(document))
    free = [
        name
        for name, document in documents.items()
        if all(owners[text] == 1 for text in _long_texts(document))
    ]
    free = [name for name in free if len(documents[name]) >= SHORT_DOCUMENT]
    order = sorted(free, key=lambda name: hashlib.sha256(name.encode()).digest())
    tested = min(HELD_OUT["test"], len(order) // 2)
    validated = min(HELD_OUT["dev"], len(order) // 4)
    if not validated:
        raise UserError(
            f"only {len(free)} of {len(documents)} documents could be held out; give whole packages"
        )
    print(f"{len(free)} of {len(documents)} documents share no long paragraph with another one")
    chosen = dict.fromkeys(order[:tested], "test") | dict.fromkeys(
        order[tested : tested + validated], "dev"
    )
    return {
        split: [name for name in documents if chosen.get(name, "train") == split]
        for split in SPLITS
    }


def _long_texts(document: Document) -> set[tuple[int, str]]:
    """Return the texts of more than ``SHORT`` words with their side, in lower case."""
    texts = ((side, text.lower()) for pair in document.values() for side, text in enumerate(pair))
    return {(side, text) for side, text in texts if len(text.split()) > SHORT}
