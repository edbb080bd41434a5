"""Read parallel documents in the formats in which corpora are published, and write the raw corpus.

A reader is a function from files to documents, each a list of sentence pairs. ``gtransformer
convert`` uses them; all other commands read the raw corpus (``corpus``) and plain text.
"""

from __future__ import annotations

import csv
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path

from lxml import etree

from gtransformer.errors import UserError
from gtransformer.files import COMPRESSED, open_bytes, read_lines
from gtransformer.preprocess.corpus import (
    SPLITS,
    LeftOut,
    Pair,
    check_reserved,
    fault,
    raw_file,
    read_documents,
    text_lines,
    write_pairs,
)
from gtransformer.preprocess.subtitles import ENDINGS, read_cue_pairs

Segments = list[tuple[str, str]]  # id of a segment ("" if the file gives none) and its text
Row = tuple[str, int, str, str]  # document, line in the file, source, target

XML, SGM, TMX, TSV, SUBTITLES, PLAIN = FORMATS = ("xml", "sgm", "tmx", "tsv", "subtitles", "plain")
_OF_ENDING = {".xml": XML, ".sgm": SGM, ".sgml": SGM, ".tmx": TMX, ".tsv": TSV} | dict.fromkeys(
    ENDINGS, SUBTITLES
)

# Names of a table's columns. A column of text may also be named after its language.
_DOCUMENT = ("docid", "doc_id", "document", "doc")
_SOURCE, _TARGET = ("src", "source"), ("ref", "reference", "target", "tgt")
# Types of a property of a translation unit that name its document.
_PROPERTIES = (
    "x-document",
    "document",
    "x-doc",
    "docid",
    "x-filename",
    "filename",
    "x-file",
    "file",
)
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = ("bpt", "ept", "it", "ph", "ut")  # TMX: codes of the original format, which are no text
# A code that stands for a blank.
_BREAK = re.compile(r"\A(x-)?(lb|br|linebreak)\Z|<br\b", re.IGNORECASE)

_DOC = re.compile(r"<doc\b([^>]*)>(.*?)</doc>", re.IGNORECASE | re.DOTALL)
_SEG = re.compile(r"<seg\b([^>]*)>(.*?)</seg>", re.IGNORECASE | re.DOTALL)
_SET = re.compile(r"<(src|ref)set\b([^>]*)>", re.IGNORECASE)
# In SGM quotes may be missing.
_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
# HTML knows some entities without the semicolon, too.
_LONE = re.compile(r"&(?!(?:\w+|#\d+|#[xX][0-9a-fA-F]+);)")


@dataclass
class Options:
    """Options of reading.

    Attributes:
        langs: source and target language.
        format: one of ``FORMATS``; None: by the ending of the first file's name.
        reference: which of several references.
        columns: names of a table's columns; empty: they are its first line.
        ids: a file with the document of every line of plain text.
        one_document: TMX: the file is a document.
        left_out: what readers leave out.
    """

    langs: tuple[str, str]
    format: str | None = None
    reference: str = ""
    columns: Sequence[str] = ()
    ids: Path | None = None
    one_document: bool = False
    left_out: LeftOut = field(default_factory=lambda: defaultdict(list))


def read(paths: Sequence[Path], options: Options) -> Iterator[list[Pair]]:
    """Yield the documents of one file with both sides, or of two with one side each, the source
    first.

    Raises UserError for files that cannot be read, or whose sides do not belong together.
    """
    name = paths[0]
    if name.suffix in COMPRESSED:
        name = name.with_suffix("")
    kind = options.format or _OF_ENDING.get(name.suffix.lower(), PLAIN)
    if len(paths) == 1 and kind == XML:
        return read_wmt(paths[0], options)
    rows = {TMX: _units, TSV: _table_rows}.get(kind)
    if len(paths) == 1 and rows:
        return _grouped(paths[0], rows(paths[0], options))
    if len(paths) != 2 or rows:
        files = "one file" if rows else "two files, the source first"
        raise UserError(f"{paths[-1]}: {kind} takes {files} (see --format)")
    source, target = paths
    # The test sets of IWSLT end in .xml, too, but have a file for each side.
    if kind in (XML, SGM):
        sides = (
            _read_sgm(source, options.langs[0], ""),
            _read_sgm(target, options.langs[1], options.reference),
        )
        return _matched(paths, *sides)
    if kind == SUBTITLES:
        return read_cue_pairs(source, target, options.left_out)
    if options.ids:
        return _grouped(options.ids, _rows_with_ids(source, target, options.ids))
    return read_documents(source, target)


def read_wmt(path: Path, options: Options) -> Iterator[list[Pair]]:
    """Yield the documents of WMT's XML (from 2021), without the translations of systems.

    Documents that lack a side are left out and counted. Raises UserError for several references
    without a choice.
    """
    source_lang, target_lang = options.langs
    for document in _elements(path, "doc"):
        name = document.get("id", "")
        sources = _sides(document, "src", source_lang)
        references = _sides(document, "ref", target_lang)
        if options.reference:
            references = [
                side for side in references if side.get("translator") == options.reference
            ]
        if not sources or not references:
            options.left_out["documents that lack a side"].append(name)
            continue
        if len(references) > 1:
            names = ", ".join(side.get("translator", "without name") for side in references)
            raise UserError(
                f"{path}: document {name} has several references ({names}); name one with "
                "--reference"
            )
        sides = [
            [(seg.get("id", ""), _text(seg)) for seg in side.iter("seg")]
            for side in (sources[0], references[0])
        ]
        yield _aligned((path, path), name, *sides)


def _sides(document: etree._Element, tag: str, lang: str) -> list[etree._Element]:
    return [side for side in document.iter(tag) if _same_language(side.get("lang", ""), lang)]


def _units(path: Path, options: Options) -> Iterator[Row]:
    """Yield the units of a translation memory. Those without exactly one text in each language are
    counted.

    A property of a unit names its document.
    """
    for unit in _elements(path, "tu"):
        texts = [
            [
                _text(segment)
                for tuv in unit.iter("tuv")
                if _same_language(tuv.get(_LANG) or tuv.get("lang", ""), lang)
                for segment in tuv.findall("seg")
            ]
            for lang in options.langs
        ]
        # Of several translations none is known to be the right one.
        if [len(found) for found in texts] != [1, 1]:
            what = "translation units without one text in each language"
            options.left_out[what].append(f"line {unit.sourceline}")
            continue
        properties = {
            prop.get("type", "").lower(): _text(prop).strip() for prop in unit.iter("prop")
        }
        # The more definite properties come first: files may hold several documents.
        names = [properties[name] for name in _PROPERTIES if properties.get(name)]
        if options.one_document:
            names = ["the file"]
        if not names:
            what = f"the unit names no document in a property {', '.join(_PROPERTIES)}"
            raise fault(path, unit.sourceline, f"{what}; give --one-document if the file is one")
        yield names[0], unit.sourceline, texts[0][0], texts[1][0]


def _table_rows(path: Path, options: Options) -> Iterator[Row]:
    """Yield the rows of a table with tabs. Fields have no quotes."""
    # Quotes are text in these tables. As those of csv they would join lines.
    table = csv.DictReader(
        read_lines(path), options.columns or None, delimiter="\t", quoting=csv.QUOTE_NONE
    )
    names = [f"ref:{options.reference.lower()}"] if options.reference else _TARGET
    document = _column(path, table.fieldnames, _DOCUMENT)
    source = _column(path, table.fieldnames, _SOURCE, options.langs[0])
    target = _column(path, table.fieldnames, names, options.langs[1])
    for row in table:
        if None in row or None in row.values():
            raise fault(
                path, table.line_num, f"other columns than expected ({', '.join(table.fieldnames)})"
            )
        yield row[document].strip(), table.line_num, row[source], row[target]


def _column(path: Path, columns: Sequence[str], names: Sequence[str], lang: str = "") -> str:
    """Return the column with one of these names, else that of the language."""
    matching = [name for name in columns if name.strip().lower() in names]
    matching = matching or [name for name in columns if name and _same_language(name, lang)]
    if len(matching) != 1:
        given = ", ".join(columns)
        raise fault(
            path, 1, f"one column {names[0]} is needed; the columns are {given} (see --columns)"
        )
    return matching[0]


def _read_sgm(path: Path, lang: str, reference: str) -> dict[str, Segments]:
    """Return the documents of one side in WMT's SGM or IWSLT's XML, by id.

    This is no XML: attributes without quotes, lone ``&`` and ``<``. As in sacrebleu, expressions
        find the segments.
    """
    text = "\n".join(read_lines(path))
    for side, head in _SET.findall(text):
        stated = _attributes(head).get("srclang" if side.lower() == "src" else "trglang")
        # Some files state names such as English, or any.
        if stated and re.fullmatch("[a-z]{2}", stated) and not _same_language(stated, lang):
            raise UserError(
                f"{path}: its language is {stated}, not {lang}; the source file comes first"
            )
    documents: dict[str, Segments] = {}
    elements = _DOC.findall(text)
    if len(elements) != len(re.findall(r"<doc\b", text, re.IGNORECASE)):
        raise UserError(f"{path}: a <doc> is not closed")
    for head, body in elements:
        attributes = _attributes(head)
        name = attributes.get("docid") or attributes.get("id") or f"number {len(documents) + 1}"
        if reference and attributes.get("sysid") != reference:
            continue
        segments = [
            (_attributes(start).get("id", ""), _plain(seg)) for start, seg in _SEG.findall(body)
        ]
        if len(segments) != len(re.findall(r"<seg\b", body, re.IGNORECASE)):
            raise UserError(f"{path}: document {name}: a <seg> is not closed")
        if name in documents:
            raise UserError(
                f"{path}: document {name} occurs twice; of several references name one with "
                "--reference"
            )
        documents[name] = segments
    return documents


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): unescape(value.strip("\"'")) for name, value in _ATTRIBUTE.findall(text)}


def _plain(markup: str) -> str:
    """Return the text of a segment: tags are left out, a line break becomes a blank."""
    text = _TAG.sub(lambda tag: " " if tag[0].lower().startswith("<br") else "", markup)
    return unescape(_LONE.sub("&amp;", text))


def _rows_with_ids(source: Path, target: Path, ids: Path) -> Iterator[Row]:
    """Yield the lines of two texts with the document of each: an id, or OPUS's four columns."""
    for number, row in enumerate(
        zip_longest(text_lines(source), text_lines(target), read_lines(ids)), 1
    ):
        if None in row:
            raise fault(
                (source, target, ids)[row.index(None)],
                number - 1,
                "the file ends here, but others are longer",
            )
        columns = row[2].split("\t")
        # OPUS: documents of source and target, then the sentences of each in them.
        name = "\t".join(columns[:2]) if len(columns) == 4 else row[2]
        yield name.strip(), number, row[0], row[1]


def _grouped(path: Path, rows: Iterable[Row]) -> Iterator[list[Pair]]:
    """Yield documents: consecutive rows with the same name.

    Raises UserError for an empty name, and for a name that occurs again after another one.
    """
    ended: set[str] = set()
    # A document whose lines stand in several places would become several, with less context.
    for name, lines in groupby(rows, key=itemgetter(0)):
        document = []
        for _, line, source, target in lines:
            if not name or name in ended:
                what = (
                    f"document {name} occurs again after another one" if name else "no document id"
                )
                raise fault(
                    path,
                    line,
                    f"{what}; every line needs one, and the lines are sorted by document",
                )
            document.append(_pair(path, f"line {line}", source, target))
        ended.add(name)
        yield document


def _matched(
    paths: Sequence[Path], source: dict[str, Segments], target: dict[str, Segments]
) -> Iterator[list[Pair]]:
    """Yield the documents of two files, matched by name, in the source's order."""
    # A set without some documents would have another score than the published one.
    for name in source.keys() ^ target.keys():
        has, lacks = paths if name in source else paths[::-1]
        raise UserError(
            f"{lacks}: document {name} of {has} is missing; both must have the same documents"
        )
    for name, segments in source.items():
        yield _aligned(paths, name, segments, target[name])


def _aligned(paths: Sequence[Path], name: str, left: Segments, right: Segments) -> list[Pair]:
    """Return the pairs of a document. Raise UserError if its sides have other segments."""
    if [segment for segment, _ in left] != [segment for segment, _ in right]:
        what = f"{len(right)} segments, {len(left)} in the source, or they have other ids"
        raise UserError(
            f"{paths[1]}: document {name}: both sides must have the same segments ({what})"
        )
    pairs = zip(left, right, strict=True)
    return [
        _pair(paths[0], f"document {name}", source, target) for (_, source), (_, target) in pairs
    ]


def _pair(path: Path, where: str, source: str, target: str) -> Pair:
    """Return both sentences on one line each. Raise UserError for one with a token of the raw
    format.
    """
    sides = [re.sub(r"[ \t\r\n]+", " ", text).strip(" ") for text in (source, target)]
    return check_reserved(path, where, sides[0]), check_reserved(path, where, sides[1])


def _same_language(stated: str, lang: str) -> bool:
    """Return whether a stated language is ``lang``: ``en-US`` is ``en``, but not ``en-GB``; "" is
    any.
    """
    stated, lang = (name.lower().replace("_", "-") for name in (stated, lang))
    return not stated or lang == (stated if "-" in lang else stated.partition("-")[0])


def _elements(path: Path, tag: str) -> Iterator[etree._Element]:
    """Yield the elements with this tag and empty each one afterwards."""
    with open_bytes(path) as stream:
        try:
            for _, element in etree.iterparse(
                stream, tag=tag, remove_comments=True, remove_pis=True, huge_tree=True
            ):
                yield element
                element.clear()
        except etree.XMLSyntaxError as error:
            raise UserError(f"{path}: {error}") from None


def _text(element: etree._Element) -> str:
    """Return the text of a segment with its tags left out, and without TMX's codes of another
    format.
    """
    parts = [element.text or ""]
    for child in element:
        content = _text(child)
        # Without a blank the words around a line break would become one.
        if child.tag in ("br", "lb") or (
            child.tag in _CODES and _BREAK.search(child.get("type", "") or content)
        ):
            parts.append(" ")
        elif child.tag not in _CODES:
            parts.append(content)
        parts.append(child.tail or "")
    return "".join(parts)


@dataclass
class Written:
    """Counts of what was written; ``half_empty``: pairs with an empty side."""

    documents: int = 0
    sentences: int = 0
    half_empty: int = 0


def write_split(
    output: Path, split: str, langs: Sequence[str], documents: Iterable[list[Pair]]
) -> Written:
    """Write both sides of documents; after an error neither file exists.

    ``split``: train, dev or test; ``langs``: source and target. Raises UserError if there is no
    document.
    """
    files = [raw_file(output, langs, split, lang) for lang in langs]
    written = Written()

    def checked() -> Iterator[list[Pair]]:
        yield from documents
        if not written.documents:
            raise UserError(f"{output}: no document was found for {split}; check the input")

    for document in write_pairs(files, checked()):
        written.documents += 1
        written.sentences += len(document)
        written.half_empty += sum(not (left.strip() and right.strip()) for left, right in document)
    return written


def draw_splits(documents: Iterable[list[Pair]], shares: str) -> dict[str, list[list[Pair]]]:
    """Draw documents for dev and test at random, always the same ones; the rest is for train.

    ``shares``: of train, dev and test, as ``0.8,0.1,0.1``. The order of documents is kept.
    """
    documents = list(documents)
    # Whole documents, since sentences of one document are similar. The same ones each time, so that
    # models can be compared.
    try:
        _, dev, test = (max(1, round(len(documents) * float(share))) for share in shares.split(","))
        drawn = random.Random(1).sample(range(len(documents)), dev + test)
    except ValueError:
        raise UserError(
            f"--divide {shares}: give the shares of train, dev and test, as 0.8,0.1,0.1, of at "
            "least three documents"
        ) from None
    split_of = dict.fromkeys(drawn[:dev], "dev") | dict.fromkeys(drawn[dev:], "test")
    parts: dict[str, list[list[Pair]]] = {split: [] for split in SPLITS}
    for number, document in enumerate(documents):
        parts[split_of.get(number, "train")].append(document)
    return parts
