"""WMT's test sets: XML (from 2021), SGM (before, and IWSLT's XML), and the folder of systems' outputs.

XML has source, references and hypotheses of a document together:

    <dataset id="wmt24"><doc id="a" origlang="en"><src lang="en"><p><seg id="1">Hi.</seg></p></src>
    <ref lang="de" translator="A">...</ref><hyp lang="de" system="GPT-4">...</hyp></doc></dataset>

An SGM file has one side (``<srcset>``, ``<refset>``, ``<tstset>``) and is no XML: attributes without quotes, lone
``&``. IWSLT's files are the same in ``<mteval>``. Tags within a segment are left out, their text is kept.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from gtransformer.errors import UserError
from gtransformer.files import open_bytes
from gtransformer.preprocess.corpus import fault
from gtransformer.preprocess.formats.documents import (
    HYPOTHESIS,
    REFERENCE,
    SOURCE,
    Document,
    Reading,
    Side,
    Text,
)
from gtransformer.preprocess.formats.lines import read_with_ids
from gtransformer.preprocess.formats.markup import END, START, TEXT, Event, sgm_events, xml_events

SETS = {"srcset": SOURCE, "refset": REFERENCE, "tstset": HYPOTHESIS}  # of a file of SGM
SIDES = {"src": SOURCE, "ref": REFERENCE, "hyp": HYPOTHESIS}  # of a document of XML
NAMES = ("translator", "system", "sysid", "refid")  # attributes with the name of a side
BREAKS = ("br", "lb")  # within a segment; they stand for a blank
UNCLOSED = ("p", "hl")  # may lack their end tags in SGM
TEXTLESS = {*SETS, *SIDES, *UNCLOSED, "doc", "dataset", "collection", "mteval"}  # have text in segments only
FOLDERS = {"sources": SOURCE, "references": REFERENCE, "system-outputs": HYPOTHESIS}
_CODE = re.compile(r"[A-Za-z]{2,3}([-_]|\Z)")  # of a language; IWSLT also writes its name
IDS = "documents"  # folder of the document ids


def read_xml(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of WMT's XML. Raise UserError, naming file and line, for whatever cannot be read."""
    return iter(_Reader(path, xml_events).documents())


def read_sgm(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of SGM or of IWSLT's XML. Raise UserError as ``read_xml``.

    A document that occurs again with another ``sysid`` is another side of the same document.
    """
    return iter(_Reader(path, sgm_events).documents())


class _Reader:
    """Reads documents of segments."""

    def __init__(self, path: Path, events: Callable[[Path], Iterator[Event]]):
        self.path, self.events, self.strict = path, events, events is xml_events
        self.found: dict[str, Document] = {}  # by id, or by number
        self.open: list[tuple[str, int]] = []  # elements, with their lines
        self.set: dict[str, str] = {}  # attributes of the set
        self.document: Document | None = None
        self.text: Text | None = None
        self.segment: tuple[str, int, list[str]] | None = None  # id, line, parts of its text

    def documents(self) -> list[Document]:
        """Read the whole file."""
        for event in self.events(self.path):
            if event.kind == START:
                self._start(event)
            elif event.kind == END:
                self._end(event)
            elif self.segment:
                self.segment[2].append(event.text)
            elif event.text.strip() and (
                not self.open or self.open[-1][0] in TEXTLESS or (self.strict and self.text is not None)
            ):
                raise fault(self.path, event.line, f"text outside <seg> ({event.text.strip()[:30]!r})")
        while self.open and self.open[-1][0] in UNCLOSED:
            self.open.pop()
        if self.open:
            raise fault(self.path, self.open[-1][1], f"<{self.open[-1][0]}> is not closed")
        return list(self.found.values())

    def _start(self, event: Event) -> None:
        name, given = event.text, event.attributes
        if self.segment and name in (*TEXTLESS, "seg"):
            raise fault(self.path, self.segment[1], f"<seg> is not closed before <{name}> in line {event.line}")
        if name in SETS:
            self.set = {**given, "role": SETS[name]}
        elif name == "doc":
            if self.document:
                raise fault(self.path, event.line, f"<doc> within {self.document.title}, which is not closed")
            self._open_document(event)
        elif name in SIDES and self.strict:
            if not self.document:
                raise fault(self.path, event.line, f"<{name}> outside <doc>")
            self._open_side(event, Side(SIDES[name], given.get("lang", ""), _first(given, NAMES)))
        elif name == "seg":
            if self.text is None:
                parent = "<src>, <ref> or <hyp>" if self.strict else "<doc>"
                raise fault(self.path, event.line, f"<seg> outside {parent}")
            self.segment = given.get("id", ""), event.line, []
        elif name in BREAKS and self.segment:
            self.segment[2].append(" ")
        self.open.append((name, event.line))

    def _open_document(self, event: Event) -> None:
        given = event.attributes
        identity = _first(given, ("id", "docid"))
        key = identity or f"\n{len(self.found)}"  # a line end is in no id
        if key in self.found and self.strict:
            raise fault(self.path, event.line, f"document {identity} occurs again, after line {self.found[key].line}")
        self.document = self.found.setdefault(key, Document(identity, self.path, event.line))
        if not self.strict:
            role = self.set.get("role", "")
            lang = self.set.get("srclang" if role == SOURCE else "trglang", "")
            lang = lang if _CODE.match(lang) and lang != "any" else ""
            name = "" if role == SOURCE else _first({**self.set, **given}, NAMES)
            self._open_side(event, Side(role, lang, name))

    def _open_side(self, event: Event, side: Side) -> None:
        if side in self.document.sides:
            raise fault(self.path, event.line, f"{self.document.title} has a {side} already; keep one, or name them")
        self.text = self.document.sides[side] = Text()

    def _end(self, event: Event) -> None:
        name = event.text
        while self.open and self.open[-1][0] != name and self.open[-1][0] in UNCLOSED:
            self.open.pop()
        if not self.open or self.open[-1][0] != name:
            top = f"<{self.open[-1][0]}> of line {self.open[-1][1]} is open" if self.open else "nothing is open"
            raise fault(self.path, event.line, f"</{name}>, but {top}; write &lt; for < in text")
        self.open.pop()
        if name == "seg":
            identity, line, parts = self.segment
            self.text.add(self.path, line, "".join(parts), identity)
            self.segment = None
        elif name == "doc":
            self.document = self.text = None
        elif name in SIDES and self.strict:
            self.text = None


def _first(given: dict[str, str], names: tuple[str, ...]) -> str:
    """Return the first of these attributes that is given, else ""."""
    return next((given[name].strip() for name in names if given.get(name, "").strip()), "")


def add_hypothesis(
    path: Path, documents: list[list[str]], lang: str, system: str, source_lang: str = ""
) -> Iterator[bytes]:
    """Yield the bytes of WMT's XML with a hypothesis in each document: ``documents`` has its sentences.

    Everything else is kept byte by byte; the hypothesis has the paragraphs and ids of the source. Raises UserError for
    a file in UTF-16.
    """
    with open_bytes(path) as stream:
        content = stream.read()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{path}: is in UTF-16; convert it to UTF-8")
    declared = re.match(rb"(?:\xef\xbb\xbf)?<\?xml[^>]*?encoding\s*=\s*[\"']([\w.-]+)", content)
    encoding = declared[1].decode("ascii") if declared else "utf-8"
    sentences = iter([])
    rest, pieces, inside, begun = iter(documents), [], False, 0
    for event in xml_events(path):
        name = event.text
        if event.kind == TEXT:
            continue
        if event.kind == START and name == "src":
            if not Side(SOURCE, event.attributes.get("lang", "")).is_in(source_lang):
                continue
            inside, pieces, sentences = True, [], iter(next(rest))
        elif event.kind == END and name == "src":
            inside = False
        elif inside and name == "seg":
            if event.kind == START:
                attributes = "".join(f" {key}={quoteattr(value)}" for key, value in event.attributes.items())
                pieces.append(f"<seg{attributes}>{escape(next(sentences))}</seg>\n")
        elif inside and name in UNCLOSED:
            pieces.append(f"<{name}>\n" if event.kind == START else f"</{name}>\n")
        elif event.kind == END and name == "doc" and pieces:
            added = f"<hyp lang={quoteattr(lang)} system={quoteattr(system)}>\n{''.join(pieces)}</hyp>\n"
            yield content[begun : event.offset] + added.encode(encoding, "xmlcharrefreplace")
            begun, pieces = event.offset, []
    yield content[begun:]


def is_layout(path: Path) -> bool:
    """Return whether a folder has WMT's layout: ``sources`` and ``documents``, in itself or in ``txt``."""
    return _layout(path) is not None


def _layout(path: Path) -> Path | None:
    return next((one for one in (path, path / "txt") if (one / "sources").is_dir() and (one / IDS).is_dir()), None)


def layout_files(path: Path, pair: str) -> tuple[dict[Side, Path], Path]:
    """Return the files of a language pair (``en-de``) in WMT's layout by side, and the file of document ids.

    A file belongs to a pair if its name, or its folder's, has it as a word. What is left of the name, without suffixes
    and languages, is the name of the reference or system. Raises UserError if source or ids are missing or several, for
    two files with one name, and lists the files that there are.
    """
    folder, langs = _layout(path), pair.split("-")
    files: dict[Side, Path] = {}
    for part, role in FOLDERS.items():
        for file in _of_pair(folder / part, pair):
            lang = langs[0] if role == SOURCE else langs[1]
            side = Side(role, lang, "" if role == SOURCE else _name(file, pair))
            if side in files:
                raise UserError(f"{file}: {files[side].name} is {side}, too; keep one of them")
            files[side] = file
    ids = _of_pair(folder / IDS, pair)
    if len(ids) != 1 or Side(SOURCE, langs[0]) not in files:
        lacking = folder / (IDS if len(ids) != 1 else "sources")
        there = ", ".join(sorted(one.name for one in lacking.iterdir())) or "none"
        raise UserError(f"{lacking}: one file for the language pair {pair} is needed; it has {there}")
    return files, ids[0]


def _of_pair(folder: Path, pair: str) -> list[Path]:
    """Return the files of a folder, or of its folders, that belong to a language pair."""
    word = re.compile(rf"(?<![A-Za-z]){re.escape(pair)}(?![A-Za-z])")
    found = sorted(one for one in folder.rglob("*") if one.is_file() and not one.name.startswith("."))
    found = [one for one in found if one.suffix != ".json"]  # scores that lie there
    return [one for one in found if word.search(one.relative_to(folder).as_posix())]


def _name(file: Path, pair: str) -> str:
    """Return the system's name in a file name, as ``GPT-4`` in ``en-de/GPT-4.txt`` or ``wmt.en-de.hyp.GPT-4.de``."""
    parts = file.name.split(".")
    if pair in parts[:-1] and len(parts) > parts.index(pair) + 1:
        after = parts[parts.index(pair) + 1 :]
        parts = after if set(after) - {"txt", *pair.split("-")} else parts[: parts.index(pair)]
    while len(parts) > 1 and parts[-1] in ("txt", *pair.split("-"), pair):
        parts.pop()
    while len(parts) > 1 and parts[0] in ("src", "ref", "hyp"):
        parts.pop(0)
    return ".".join(parts)


def read_layout(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of a language pair (``reading.langs``) in WMT's folder, with references and outputs."""
    if len(reading.langs) != 2:
        what = "give it to corpus convert files with -s and -t, or to score --test-set with --langs"
        raise UserError(f"{path}: the folder may have several language pairs; {what}")
    files, ids = layout_files(path, "-".join(reading.langs))
    if reading.systems is not None:
        files = {one: file for one, file in files.items() if one.role != HYPOTHESIS or one.name in reading.systems}
    for document in read_with_ids(files, {Side(SOURCE): ids}, reading.returning):
        yield replace(document, id=document.id.rpartition("\t")[2])  # a line is the domain, a tab and the id
