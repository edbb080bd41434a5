"""OPUS (Tiedemann 2012): documents as XML, and an XML file that says which of their sentences belong together (XCES).

    <linkGrp fromDoc="de/2001/12.xml.gz" toDoc="en/2001/7.xml.gz"><link xtargets="1;1 2" /> ...

A group of links is a document, a link a sentence pair: what stands on a side is joined by a blank. Links with an empty
side are left out. Sentences are the text of ``<s>`` or, where words are marked (``<w>``), these with blanks between.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from gtransformer.errors import UserError
from gtransformer.files import open_bytes
from gtransformer.preprocess.corpus import Pair, reserved_mark

REFUSE, FIRST, NEW = RETURNING = ("refuse", "first", "new")


@dataclass
class Left:
    """What was left out: links with an empty side, groups without others, and groups of documents that came back."""

    links: int = 0
    empty: int = 0
    returned: int = 0


def read_opus(
    alignment: Path, folder: Path, langs: tuple[str, str], returning: str = REFUSE, left: Left | None = None
) -> Iterator[list[Pair]]:
    """The documents of an alignment file.

    Args:
        folder: what the names of documents are relative to; they may be compressed there or not.
        langs: source and target. Which side of the file is which is told by the folders that documents lie in.
        returning: of a document that has been in another group already (subtitles in several translations),
            ``RETURNING``: refuse it, keep the first group only, or take it again.
        left: counts what is left out.

    Raises UserError for damaged XML, a document that is not there, a link to a sentence that its document does not
    have, a sentence in two links of a group, a document that comes back, and text with marks of the raw format.
    """
    left = left or Left()
    seen: set[str] = set()
    for _, group in _elements(alignment, "linkGrp"):
        names = [group.get("fromDoc") or "", group.get("toDoc") or ""]
        order = _order(alignment, names, langs)
        again = [name for name in names if name in seen]
        if again and returning == REFUSE:
            raise UserError(
                f"{alignment}: document {again[0]} comes back in another group of links; give --returning first to "
                "keep its first group, or --returning new to take all"
            )
        if again and returning == FIRST:
            left.returned += 1
            continue
        seen.update(names)
        sides = [_sentences(_find(folder, name)) for name in names]
        used: list[set[str]] = [set(), set()]
        document = []
        for link in group.iter("link"):
            text = []
            for side, name, ids, taken in zip(sides, names, _targets(alignment, link), used, strict=True):
                for one in ids:
                    if one not in side:
                        raise UserError(f"{alignment}: a link to sentence {one} of {name}, which has no such sentence")
                    if one in taken:
                        raise UserError(f"{alignment}: sentence {one} of {name} stands in two links; keep one of them")
                    taken.add(one)
                text.append(" ".join(side[one] for one in ids if side[one]))
            if all(text):
                document.append((text[order[0]], text[order[1]]))
            else:
                left.links += 1
        if document:
            yield document
        else:
            left.empty += 1


def _elements(path: Path, tag: str) -> Iterator[tuple[str, ElementTree.Element]]:
    """Every whole element of a name, cleared once it is used. UserError, with the line, for damaged XML."""
    with open_bytes(path) as stream:
        try:
            for event, element in ElementTree.iterparse(stream):
                if element.tag == tag:
                    yield event, element
                    element.clear()
        except ElementTree.ParseError as error:
            raise UserError(f"{path}, line {error.position[0]}: damaged XML ({error.msg})") from None
        except (ValueError, LookupError) as error:  # of expat: what the file says of its encoding
            raise UserError(f"{path}: its encoding cannot be read ({error}); convert the file to UTF-8") from None
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise UserError(f"{path}: cannot be read ({error}); fetch the file again") from None


def _order(alignment: Path, names: list[str], langs: tuple[str, str]) -> tuple[int, int]:
    """Which side of the file is the source, and which the target."""
    parts = [PurePosixPath(name).parts for name in names]
    for order in ((0, 1), (1, 0)):
        if all(lang in parts[side] for lang, side in zip(langs, order, strict=True)):
            return order
    raise UserError(
        f"{alignment}: documents {' and '.join(names)} are not of {' and '.join(langs)}, by the folders that they lie "
        "in; give the languages as they are called there, with -s and -t"
    )


def _find(folder: Path, name: str) -> Path:
    plain = folder / name.removesuffix(".gz")
    for path in (plain, plain.with_name(f"{plain.name}.gz")):
        if path.is_file():
            return path
    raise UserError(f"{plain}: no such file, nor {plain.name}.gz; give with --documents the folder that {name} lies in")


def _sentences(path: Path) -> dict[str, str]:
    """The sentences of a document by id."""
    found: dict[str, str] = {}
    for _, element in _elements(path, "s"):
        words = [word.text or "" for word in element.iter("w")]
        identity, text = element.get("id") or "", " ".join((" ".join(words or element.itertext())).split())
        if not identity or identity in found:
            raise UserError(f"{path}: sentence id {identity!r} is missing or stands twice; fetch the file again")
        if mark := reserved_mark(text):
            raise UserError(f"{path}: {mark} inside sentence {identity} is reserved; remove or rewrite it")
        found[identity] = text
    return found


def _targets(alignment: Path, link: ElementTree.Element) -> list[list[str]]:
    """The ids of both sides of a link."""
    sides = (link.get("xtargets") or "").split(";")
    if len(sides) != 2:
        raise UserError(f"{alignment}: a link whose xtargets are {link.get('xtargets')!r}; 'ids;ids' is expected")
    return [side.split() for side in sides]
