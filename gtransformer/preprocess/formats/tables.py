"""Tables with a document id in every row: TSV, and JSON with an object a line.

Columns are found by their names (``NAMED``); a column may also be named after its language, and ``ref:A`` and ``hyp:A``
are of one translator or system. Fields of TSV have no quotes. A file of sacrebleu (``sacrebleu --echo docid src ref``)
is TSV without names, which the user gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.files import NO_JSON, json_fault, read_lines
from gtransformer.preprocess.corpus import fault, is_document_mark
from gtransformer.preprocess.formats.documents import (
    HYPOTHESIS,
    REFERENCE,
    SOURCE,
    Document,
    Reading,
    Row,
    Side,
    grouped,
    same_language,
)

DOCUMENT, SEGMENT = "document", "segment"
NAMED = {
    DOCUMENT: ("docid", "doc_id", "doc-id", "document_id", "document-id", "documentid", "document", "doc"),
    SEGMENT: ("segid", "seg_id", "segment_id"),
    SOURCE: ("src", "source"),
    REFERENCE: ("ref", "reference", "target", "tgt"),
    HYPOTHESIS: ("hyp", "hypothesis", "translation", "mt"),
}
_MEANING = {name: meaning for meaning, names in NAMED.items() for name in names}
_LANG = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?\Z")
_NO_LANG = frozenset(("id", "seg", "idx", "num", "url", "lp"))  # usual columns; as languages only where wanted
_QUOTED = re.compile('"(?:[^"]|"")*"')
_SURROGATE = re.compile("[\ud800-\udfff]")
TRANSLATION = "hyp"  # the column that a translation adds


def columns(names: Iterable[str], langs: Sequence[str] = ()) -> dict[str, str | Side]:
    """Return the meaning of every column that has one: ``DOCUMENT``, ``SEGMENT`` or a side. ``langs``: wanted ones.

    Beside a column that is called a source, languages that are not wanted are no texts.
    """
    found: dict[str, str | Side] = {}
    like_langs: dict[str, str | Side] = {}
    for name in names:
        plain, colon, who = name.strip().partition(":")
        meaning = _MEANING.get(plain.lower())
        if plain and not colon and any(lang and same_language(plain, lang) for lang in langs):
            found[name] = Side("", plain)
        elif meaning in (DOCUMENT, SEGMENT) and not colon:
            found[name] = meaning
        elif meaning in (SOURCE, REFERENCE, HYPOTHESIS):
            found[name] = Side(meaning, "", who.strip())
        elif not colon and _LANG.match(plain) and plain not in _NO_LANG:
            like_langs[name] = Side("", plain)
    for role in (REFERENCE, HYPOTHESIS):
        sides = {name: side for name, side in found.items() if isinstance(side, Side) and side.role == role}
        plain = [name for name, side in sides.items() if not side.name]
        if len(plain) == 1 < len(sides):
            found[plain[0]] = Side(role, "", plain[0].strip())  # its name, to choose it from the others
    return found if Side(SOURCE) in found.values() else found | like_langs


def is_header(names: Sequence[str]) -> bool:
    """Return whether these are names of columns: a document's and a text's."""
    meanings = columns(names).values()
    return DOCUMENT in meanings and any(isinstance(one, Side) for one in meanings)


def _check(path: Path, names: Sequence[str], langs: Sequence[str]) -> dict[str, str | Side]:
    """Return ``columns``. Raise UserError if the document's or all texts are missing, or a meaning is there twice."""
    found = columns(names, langs)
    meanings = list(found.values())
    double = next((name for name, one in found.items() if meanings.count(one) > 1), None)
    double = double or next((name for name in names if list(names).count(name) > 1), None)
    if double is not None:
        raise fault(path, 1, f"column {double!r} is there twice (columns: {', '.join(names)})")
    if DOCUMENT not in meanings or not any(isinstance(one, Side) for one in meanings):
        what = f"columns {', '.join(NAMED[DOCUMENT][:1] + NAMED[SOURCE][:1] + NAMED[REFERENCE][:1])} or the like"
        raise fault(path, 1, f"{what} are needed; the file has {', '.join(names)}")
    return found


def read_tsv(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of a table with tabs. Raise UserError, naming file and line, for rows that do not fit."""
    return grouped(path, _tsv_rows(path, reading), reading.returning)


def _tsv_rows(path: Path, reading: Reading) -> Iterator[Row]:
    names, found = reading.columns, {}
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if number == 1:
            header = not names or (len(cells) == len(names) and is_header(cells))
            names = names or tuple(cells)
            found = _check(path, names, reading.langs)
            if header:
                continue
        if not line.strip():
            continue
        if len(cells) != len(names):
            raise fault(path, number, f"{len(cells)} columns, but {len(names)} are expected ({', '.join(names)})")
        texts = (cell for name, cell in zip(names, cells, strict=True) if name in found)
        quoted = next((cell for cell in texts if '""' in cell and cell.strip('"') and _QUOTED.fullmatch(cell)), None)
        if quoted:
            raise fault(path, number, f"{quoted[:30]!r} is quoted as in CSV; write fields without quotes")
        yield _row(number, dict(zip(names, cells, strict=True)), found)


def _row(number: int, cells: Mapping[str, str], found: Mapping[str, str | Side]) -> Row:
    by = {meaning: cells[name] for name, meaning in found.items()}
    texts = {side: text for side, text in by.items() if isinstance(side, Side)}
    return Row(by[DOCUMENT].strip(), number, by.get(SEGMENT, ""), texts)


def read_jsonl(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of JSON lines. Raise UserError, naming file and line, for lines that do not fit.

    A text is a string, or a list with the sentences of a whole document. The texts may be in an object ``translation``,
    by language.
    """
    return grouped(path, _json_rows(path, reading), reading.returning)


def json_line(path: Path, number: int, line: str) -> dict[str, Any]:
    """Return the object of a line. Raise UserError, naming file and line, for anything else."""
    try:
        value = json.loads(line)
    except NO_JSON as error:
        raise fault(path, number, f"not valid JSON ({json_fault(error)})") from None
    if not isinstance(value, dict):
        raise fault(path, number, "no JSON object; give one for every line")
    return value


def _flat(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object with those within ``translation`` in its place."""
    inner = value.get("translation")
    return (
        {key: one for key, one in value.items() if key != "translation"} | inner if isinstance(inner, dict) else value
    )


def _json_rows(path: Path, reading: Reading) -> Iterator[Row]:
    found: dict[str, str | Side] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        value = _flat(json_line(path, number, line))
        found = found or _check(path, list(value), reading.langs)
        if _is_break(value, found):
            continue
        texts: dict[str, list[str]] = {}
        for name, meaning in found.items():
            given = value.get(name)
            if not isinstance(meaning, Side):
                given = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
                if meaning == SEGMENT and given is None:
                    given = ""
            sentences = given if isinstance(given, list) and isinstance(meaning, Side) else [given]
            if not all(isinstance(one, str) for one in sentences):
                raise fault(path, number, f"no text {name!r}; every line needs the keys of the first one")
            if any(map(_SURROGATE.search, sentences)):
                raise fault(path, number, f"{name!r} has half a character (\\ud800 to \\udfff); remove or correct it")
            if not sentences:
                raise fault(path, number, f"{name!r} has no sentence; remove the line")
            texts[name] = sentences
        counts = {len(texts[name]) for name, meaning in found.items() if isinstance(meaning, Side)}
        if len(counts) > 1:
            listed = ", ".join(f"{name} has {len(texts[name])}" for name in texts if isinstance(found[name], Side))
            raise fault(path, number, f"texts of unequal numbers of sentences ({listed})")
        for at in range(counts.pop()):
            cells = {name: one[at if isinstance(found[name], Side) else 0] for name, one in texts.items()}
            yield _row(number, cells, found)


def _is_break(value: Mapping[str, Any], found: Mapping[str, str | Side]) -> bool:
    """Return whether a row of ``translate --format json`` is a line that separates documents: ``<d>`` or blank."""
    texts = [value.get(name) for name, meaning in found.items() if isinstance(meaning, Side)]
    if not all(isinstance(one, str) for one in texts):
        return False
    document = next((value.get(name, "") for name, meaning in found.items() if meaning == DOCUMENT), "")
    return all(map(is_document_mark, texts)) or (document is None and not any(map(str.strip, texts)))


def add_translation(path: Path, documents: list[list[str]], is_json: bool) -> Iterator[str]:
    """Yield the lines of a table with the translations of its rows as a further column, ``hyp``.

    ``documents``: the sentences of each document, in order. Lines are kept as they are, but for what is added. Raises
    UserError, naming file and line, if there is such a column.
    """
    sentences = iter([sentence for document in documents for sentence in document])
    found: dict[str, str | Side] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            yield f"{line}\n"
        elif is_json:
            value = json_line(path, number, line)
            if TRANSLATION in value:
                raise fault(path, number, f"{TRANSLATION!r} is there already; rename it")
            flat = _flat(value)
            found = found or columns(flat)
            if _is_break(flat, found):
                yield f"{line}\n"
                continue
            text = next(name for name, one in found.items() if isinstance(one, Side))  # all have as many sentences
            several = isinstance(flat[text], list)
            added = [next(sentences) for _ in flat[text]] if several else next(sentences)
            yield f'{line.rstrip()[:-1].rstrip()}, "{TRANSLATION}": {json.dumps(added, ensure_ascii=False)}}}\n'
        elif number == 1:
            if TRANSLATION in line.split("\t"):
                raise fault(path, 1, f"column {TRANSLATION!r} is there already; rename it")
            yield f"{line}\t{TRANSLATION}\n"
        else:
            yield f"{line}\t{next(sentences)}\n"
