"""Conversion of other formats to a split of a raw corpus: a document id for every line (WMT), or the XML of OPUS.

OPUS (Tiedemann 2012) has documents as XML, and an XML file that aligns their sentences (XCES):

    <linkGrp fromDoc="de/2001/12.xml.gz" toDoc="en/2001/7.xml.gz"><link xtargets="1;1 2" /> ...

A group of links is a document, a link a sentence pair: the sentences of a side are joined by a blank. Links with an
empty side are left out. A sentence is the text of ``<s>``, or its words (``<w>``) joined by blanks.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from gtransformer.errors import UserError
from gtransformer.files import open_bytes, read_lines
from gtransformer.preprocess.corpus import Pair, check_reserved, fault, raw_file, text_lines, write_pairs

# What to do with a document that occurs again after another one.
REFUSE, GATHER, FIRST, NEW = "refuse", "gather", "first", "new"
RETURNING_ID, RETURNING_OPUS = (REFUSE, GATHER, NEW), (REFUSE, FIRST, NEW)


@dataclass
class Written:
    """The files that were written, source first, and counts; ``half_empty``: pairs with an empty side."""

    files: list[Path]
    documents: int = 0
    sentences: int = 0
    half_empty: int = 0


def write_split(output: Path, split: str, langs: Sequence[str], documents: Iterable[list[Pair]]) -> Written:
    """Write both sides of documents; after an error neither file exists.

    ``split``: train, dev or test; ``langs``: source and target. Raises UserError if there is no document.
    """
    written = Written([raw_file(output, langs, split, lang) for lang in langs])

    def some() -> Iterator[list[Pair]]:
        yield from documents
        if not written.documents:
            raise UserError(f"{output}: no document was found for {split}; check the input")

    for document in write_pairs(written.files, some()):
        written.documents += 1
        written.sentences += len(document)
        written.half_empty += sum(not (left.strip() and right.strip()) for left, right in document)
    return written


def read_with_ids(
    source: Path, target: Path, ids: Path, target_ids: Path | None = None, returning: str = REFUSE
) -> Iterator[list[Pair]]:
    """Yield documents: consecutive lines with the same id, which is a line of ``ids``.

    Args:
        target_ids: ids of the target. They may differ from the source's, but must change at the same lines.
        returning: for an id that occurs again after another one, one of ``RETURNING_ID``: refuse it, append its lines
            to the earlier document, or begin a new document.

    Raises UserError, naming file and line, for files of unequal length, for a line without id, for ids that change at
    different lines, for an id that occurs again and for text with tokens of the raw format.
    """
    paths = [path for path in (source, target, ids, target_ids) if path is not None]
    documents: dict[object, list[Pair]] = {}
    ended: dict[str, int] = {}  # id -> last line
    before: list[str] | None = None
    key: object = None
    texts = (text_lines(path) if path in (source, target) else read_lines(path) for path in paths)
    for number, row in enumerate(zip_longest(*texts), 1):
        if None in row:
            longer = next(path for path, line in zip(paths, row, strict=True) if line is not None)
            what = f"the file ends here, but {longer} is longer; text and ids must be aligned line by line"
            raise fault(paths[row.index(None)], number - 1, what)
        left, right = (check_reserved(path, f"line {number}", line) for path, line in zip(paths, row[:2], strict=False))
        names = [name.strip(" \t") for name in row[2:]]
        for path, name in zip(paths[2:], names, strict=True):
            if not name:
                raise fault(path, number, "no document id; every line of text needs one")
        changed = [before is None or one != other for one, other in zip(names, before or names, strict=True)]
        if len(set(changed)) > 1:
            has, lacks = paths[2:] if changed[0] else paths[:1:-1]
            raise fault(has, number, f"a document begins here, but not in {lacks}; both must begin at the same line")
        name = names[0]
        if changed[0]:
            if name in ended and returning == REFUSE:
                raise fault(
                    ids,
                    number,
                    f"document {name} occurs again, after it ended on line {ended[name]}; give --returning gather to "
                    "join its lines, or --returning new for a document each time",
                )
            key = (name, number) if returning == NEW else name
            documents.setdefault(key, [])
            if returning != GATHER:  # earlier documents are complete
                yield from (documents.pop(one) for one in list(documents) if one != key)
        documents[key].append((left, right))
        ended[name], before = number, names
    yield from documents.values()


@dataclass
class LeftOut:
    """Counts of links with an empty side, groups without other links, and groups of documents that occurred again."""

    links: int = 0
    empty: int = 0
    returned: int = 0


def read_opus(
    alignment: Path, folder: Path, langs: tuple[str, str], returning: str = REFUSE, left_out: LeftOut | None = None
) -> Iterator[list[Pair]]:
    """Yield the documents of an alignment file.

    Args:
        folder: directory of the documents, which may be compressed; their names are relative to it.
        langs: source and target. The folders of the documents tell the sides of the file.
        returning: for a document that occurred in an earlier group (subtitles in several translations), one of
            ``RETURNING_OPUS``: refuse it, keep only the first group, or take it again.
        left_out: counts of what is left out.

    Raises UserError for damaged XML, a missing document, a link to a missing sentence, a sentence in two links of a
    group, a document that occurs again, and text with tokens of the raw format.
    """
    left_out = left_out or LeftOut()
    seen: set[str] = set()
    for group in _elements(alignment, "linkGrp"):
        names = [group.get("fromDoc") or "", group.get("toDoc") or ""]
        order = _order(alignment, names, langs)
        again = [name for name in names if name in seen]
        if again and returning == REFUSE:
            raise UserError(
                f"{alignment}: document {again[0]} occurs again in another group of links; give --returning first to "
                "keep its first group, or --returning new to take all"
            )
        if again and returning == FIRST:
            left_out.returned += 1
            continue
        seen.update(names)
        sides = [_sentences(_find(folder, name)) for name in names]
        used: list[set[str]] = [set(), set()]
        document = []
        for link in group.iter("link"):
            targets = (link.get("xtargets") or "").split(";")
            if len(targets) != 2:
                given = link.get("xtargets")
                raise UserError(f"{alignment}: a link whose xtargets are {given!r}; 'ids;ids' is expected")
            text = []
            for side, name, ids, taken in zip(sides, names, map(str.split, targets), used, strict=True):
                for one in ids:
                    if one not in side:
                        raise UserError(f"{alignment}: a link to sentence {one} of {name}, which has no such sentence")
                    if one in taken:
                        raise UserError(f"{alignment}: sentence {one} of {name} is in two links; keep one of them")
                    taken.add(one)
                text.append(" ".join(side[one] for one in ids if side[one]))
            if all(text):
                document.append((text[order[0]], text[order[1]]))
            else:
                left_out.links += 1
        if document:
            yield document
        else:
            left_out.empty += 1


def _elements(path: Path, tag: str) -> Iterator[ElementTree.Element]:
    """Yield the elements with a tag and clear each afterwards. Raise UserError, with the line, for damaged XML."""
    with open_bytes(path) as stream:
        try:
            for _, element in ElementTree.iterparse(stream):
                if element.tag == tag:
                    yield element
                    element.clear()
        except ElementTree.ParseError as error:
            raise fault(path, error.position[0], f"damaged XML ({error.msg})") from None
        except (ValueError, LookupError) as error:  # of expat, for the declared encoding
            raise UserError(f"{path}: its encoding cannot be read ({error}); convert the file to UTF-8") from None
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise UserError(f"{path}: cannot be read ({error}); fetch the file again") from None


def _order(alignment: Path, names: list[str], langs: tuple[str, str]) -> tuple[int, int]:
    """Return which side of the file is the source, and which the target."""
    parts = [PurePosixPath(name).parts for name in names]
    for order in ((0, 1), (1, 0)):
        if all(lang in parts[side] for lang, side in zip(langs, order, strict=True)):
            return order
    raise UserError(
        f"{alignment}: documents {' and '.join(names)} are not in folders of {' and '.join(langs)}; give the languages "
        "as these folders are named, with -s and -t"
    )


def _find(folder: Path, name: str) -> Path:
    plain = folder / name.removesuffix(".gz")
    for path in (plain, plain.with_name(f"{plain.name}.gz")):
        if path.is_file():
            return path
    raise UserError(f"{plain}: no such file, nor {plain.name}.gz; give the folder of {name} with --documents")


def _sentences(path: Path) -> dict[str, str]:
    """Return the sentences of a document by id."""
    found: dict[str, str] = {}
    for element in _elements(path, "s"):
        words = [word.text or "" for word in element.iter("w")]
        identity, text = element.get("id") or "", " ".join((" ".join(words or element.itertext())).split())
        if not identity or identity in found:
            raise UserError(f"{path}: sentence id {identity!r} is missing or occurs twice; fetch the file again")
        found[identity] = check_reserved(path, f"sentence {identity}", text)
    return found
