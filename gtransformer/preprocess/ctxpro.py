"""ctxpro (Wicks and Post 2023) as documents: the source context of each item, and the item's sentence at its end.

A file of ctxpro is a JSON list with an entry an item. Its inputs are a line an item: the sentences of the source
context and the item's own, separated by ``<eos>``. There is no target side of the context: for training it is
translated, and where the target has the antecedent, the reference of that sentence (``ref ante segment``) stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_json, read_lines, write_json
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.corpus import Pair, check_reserved, document_lines, fault, raw_file
from gtransformer.preprocess.formats.documents import one_line
from gtransformer.preprocess.plain_text import bare, read_shaped

SEPARATOR = "<eos>"
# What is added to an entry: the numbers of the sentence that is judged and of the one with the antecedent, from 0.
SCORED, ANTECEDENT = "scored sentence", "antecedent sentence"
REFERENCES = {ANTECEDENT: "ref ante segment", SCORED: "ref segment"}  # their references in an entry
WRONG = "wrong forms"  # optional key of an entry, for suites that know them

Entry = dict[str, Any]


def is_ctxpro(data: object) -> bool:
    """Return whether this is the content of a file of ctxpro."""
    first = data[0] if isinstance(data, list) and data else None
    return isinstance(first, dict) and {"expected", "rule"} <= first.keys()


def read_expectations(path: Path) -> list[Entry]:
    """Return the entries of a file of ctxpro. Raise UserError for another file, and for an entry without words."""
    data = read_json(path)
    if not is_ctxpro(data):
        raise UserError(f"{path}: no suite of ctxpro (a list of entries with 'expected' and 'rule')")
    for number, entry in enumerate(data):
        if not bare(entry["expected"]):
            raise UserError(f"{path}: entry {number}: 'expected' has no word")
    return data


def film(entry: Entry) -> str | None:
    """Return which subtitles an entry is of (``document id``), or None where it does not say."""
    name = entry.get("document id")
    return None if name is None else str(name)


def read_items(items: Path, inputs: Path) -> Iterator[tuple[Entry, list[str]]]:
    """Yield the entries of a file of ctxpro, with ``SCORED`` and ``ANTECEDENT``, and their documents of ``inputs``.

    ``ANTECEDENT`` is left out where the source sentence at ``ante distance`` is not the entry's ``src ante segment``.

    Raises UserError, naming the line, for inputs that are not of these entries.
    """
    entries, lines = read_expectations(items), list(read_lines(inputs))
    if len(entries) != len(lines):
        raise UserError(f"{inputs}: has {len(lines)} lines, but {items} has {len(entries)} entries")
    for number, (entry, line) in enumerate(zip(entries, lines, strict=True)):
        sentences = [clean_line(sentence) for sentence in line.split(SEPARATOR)]
        for sentence in sentences:
            check_reserved(inputs, f"line {number + 1}", sentence)
        last = len(sentences) - 1
        if not _same(sentences[last], entry["src segment"]):
            raise fault(inputs, number + 1, f"its last sentence is not 'src segment' of entry {number} of {items}")
        at = last - (entry.get("ante distance") or 0)
        known = 0 <= at < last and isinstance(entry.get("ref ante segment"), str)
        known = known and _same(sentences[at], entry.get("src ante segment") or "")
        yield entry | {SCORED: last} | ({ANTECEDENT: at} if known else {}), sentences


def read_suite(
    items: Sequence[Path], inputs: Sequence[Path], without: Sequence[Path] = ()
) -> tuple[list[Entry], list[list[str]], int]:
    """Return entries and documents of several files, and how many items were left out, of films that are in others.

    Args:
        inputs: for each file of ``items``.
        without: files of ctxpro, such as a test set.

    Raises UserError as ``read_items``, and if no item is left.
    """
    if len(items) != len(inputs):
        raise UserError(f"{inputs[-1]}: {len(items)} files of items, but {len(inputs)} of inputs")
    films = {film(entry) for path in without for entry in read_expectations(path)} - {None}
    pairs = [pair for paths in zip(items, inputs, strict=True) for pair in read_items(*paths)]
    kept = [(entry, document) for entry, document in pairs if film(entry) not in films]
    if not kept:
        raise UserError(f"{items[0]}: no item is left; all their films are in the files of --without")
    return [entry for entry, _ in kept], [document for _, document in kept], len(pairs) - len(kept)


def _same(sentence: str, segment: str) -> bool:
    return sentence.split() == clean_line(segment).split()


def write_sources(
    output: Path,
    split: str,
    langs: Sequence[str],
    entries: Sequence[Entry],
    documents: Sequence[Sequence[str]],
    suite: str = "ctxpro",
) -> list[Path]:
    """Write the source side of a split and, beside it, its entries, in a file named after ``suite``."""
    items = output / f"{suite}_{split}.json"
    source = raw_file(output, langs, split, langs[0])
    with atomic_write(source) as stream:
        stream.writelines(document_lines(documents))
    write_json(items, list(entries))
    return [source, items]


def with_translations(
    entries: Sequence[Entry], documents: Sequence[Sequence[str]], translations: Path, written: Sequence[Path]
) -> list[list[Pair]]:
    """Return documents with their target side: a translation of the source, and the references that entries have.

    Args:
        translations: line by line, of the documents in the first file.
        written: that file and the entries', as ``write_sources`` returns them.

    Raises UserError, naming file and line or entry, where the two cannot be aligned.
    """
    pairs = []
    source, items = written
    targets = read_shaped(translations, [len(document) for document in documents], source)
    for number, (entry, document, target) in enumerate(zip(entries, documents, targets, strict=True)):
        target = list(target)
        for place, key in REFERENCES.items():
            if place in entry:
                text = one_line(clean_line(entry[key]))
                target[entry[place]] = check_reserved(items, f"entry {number}, {key!r}", text)
        pairs.append(list(zip(document, target, strict=True)))
    return pairs
