"""XML of OPUS (Tiedemann 2012): documents, and a file that aligns their sentences (XCES).

    <linkGrp fromDoc="de/2001/12.xml.gz" toDoc="en/2001/7.xml.gz"><link xtargets="1;1 2" /> ...

A group of links is a document, a link a sentence pair: the sentences of a side are joined by a blank. Links with an
empty side are left out. A sentence is the text of ``<s>``, or its words (``<w>``) joined by blanks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from gtransformer.preprocess.corpus import check_reserved, fault
from gtransformer.preprocess.formats.documents import (
    FIRST,
    REFERENCE,
    REFUSE,
    SOURCE,
    Document,
    Reading,
    Side,
    Text,
    one_line,
)
from gtransformer.preprocess.formats.markup import END, START, TEXT, xml_events


def read_opus(alignment: Path, folder: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of an alignment file.

    Args:
        folder: directory of the documents, which may be compressed; their names are relative to it.
        reading: ``langs``: source and target; the folders of the documents tell the sides of the file. ``returning``,
            for a document that occurred in an earlier group (subtitles in several translations): one of
            ``RETURNING_OPUS``: refuse it, keep only the first group, or take it again.

    Raises UserError, naming file and line, for damaged XML, a missing document, a link to a missing sentence, a
    sentence in two links of a group, a document that occurs again, and text with tokens of the raw format.
    """
    left_out, seen = reading.left_out, set()
    for line, names, links in _groups(alignment):
        order = _order(alignment, line, names, reading.langs)
        again = [name for name in names if name in seen]
        if again and reading.returning == REFUSE:
            raise fault(
                alignment,
                line,
                f"document {again[0]} occurs again in another group of links; give --returning first to keep its first "
                "group, or --returning new to take all",
            )
        if again and reading.returning == FIRST:
            left_out.returned += 1
            continue
        seen.update(names)
        sides = [_sentences(_find(alignment, line, folder, name)) for name in names]
        used: list[set[str]] = [set(), set()]
        texts = Text(), Text()
        for at, given in links:
            targets = given.split(";")
            if len(targets) != 2:
                raise fault(alignment, at, f"a link whose xtargets are {given!r}; 'ids;ids' is expected")
            found = []
            for side, name, ids, taken in zip(sides, names, map(str.split, targets), used, strict=True):
                for one in ids:
                    if one not in side:
                        raise fault(alignment, at, f"a link to sentence {one} of {name}, which has no such sentence")
                    if one in taken:
                        raise fault(alignment, at, f"sentence {one} of {name} is in two links; keep one of them")
                    taken.add(one)
                found.append(" ".join(side[one] for one in ids if side[one]))
            if all(found):
                for text, number in zip(texts, order, strict=True):
                    text.add(alignment, at, found[number])
            else:
                left_out.links += 1
        if texts[0].sentences:
            name = " ".join(names)
            wanted = (Side(role, lang) for role, lang in zip((SOURCE, REFERENCE), reading.langs, strict=True))
            yield Document(name, alignment, line, dict(zip(wanted, texts, strict=True)))
        else:
            left_out.empty += 1


def _groups(alignment: Path) -> Iterator[tuple[int, list[str], list[tuple[int, str]]]]:
    """Yield line, both documents' names, and lines and ``xtargets`` of the links of every group."""
    group: tuple[int, list[str], list[tuple[int, str]]] | None = None
    for event in xml_events(alignment):
        given = event.attributes
        if event.kind == START and event.text == "linkGrp":
            group = event.line, [given.get("fromDoc") or "", given.get("toDoc") or ""], []
        elif event.kind == START and event.text == "link" and group:
            group[2].append((event.line, given.get("xtargets") or ""))
        elif event.kind == END and event.text == "linkGrp":
            yield group
            group = None


def _order(alignment: Path, line: int, names: list[str], langs: tuple[str, ...]) -> tuple[int, int]:
    """Return which side of the file is the source, and which the target."""
    parts = [PurePosixPath(name).parts for name in names]
    for order in ((0, 1), (1, 0)):
        if all(lang in parts[side] for lang, side in zip(langs, order, strict=True)):
            return order
    raise fault(
        alignment,
        line,
        f"documents {' and '.join(names)} are not in folders of {' and '.join(langs)}; give the languages as these "
        "folders are named, with -s and -t",
    )


def _find(alignment: Path, line: int, folder: Path, name: str) -> Path:
    plain = folder / name.removesuffix(".gz")
    for path in (plain, plain.with_name(f"{plain.name}.gz")):
        if path.is_file():
            return path
    what = f"{plain}: no such file, nor {plain.name}.gz; give the folder of {name} with --documents"
    raise fault(alignment, line, what)


def _sentences(path: Path) -> dict[str, str]:
    """Return the sentences of a document by id."""
    found: dict[str, str] = {}
    sentence: tuple[str, int, list[str], list[str]] | None = None  # id, line, text, words
    word = False
    for event in xml_events(path):
        if event.text == "s" and event.kind in (START, END) and (event.kind == START) == (sentence is not None):
            raise fault(path, event.line, "a sentence within another one; fetch the file again")
        if event.text == "s" and event.kind == START:
            sentence = event.attributes.get("id") or "", event.line, [], []
        elif event.text == "s" and event.kind == END:
            identity, line, text, words = sentence
            if not identity or identity in found:
                raise fault(path, line, f"sentence id {identity!r} is missing or occurs twice; fetch the file again")
            whole = one_line(" ".join(words) if words else "".join(text))
            found[identity] = check_reserved(path, f"line {line}, sentence {identity}", whole)
            sentence = None
        elif sentence and event.kind == TEXT:
            sentence[2].append(event.text)
            if word:
                sentence[3][-1] += event.text
        elif sentence:  # tags separate words
            sentence[2].append(" ")
            if event.text == "w":
                word = event.kind == START
                sentence[3].extend([""] if word else [])
    return found
