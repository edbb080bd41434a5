"""ctxpro (Wicks and Post 2023) as documents: the source context of each item, and the item's
sentence at its end.

A file of ctxpro is a JSON list with an entry an item. Its inputs are a line an item: the sentences
of the source context and the item's own, separated by ``<eos>``. There is no target side of the
context: for training it is translated, and where the target has the antecedent, the reference of
that sentence (``ref ante segment``) stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_json, read_lines, write_json
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.corpus import Pair, check_reserved, document_lines, fault, raw_file
from gtransformer.preprocess.plain_text import bare, read_shaped

SEPARATOR = "<eos>"
# What is added to an entry: the numbers of the sentence that is judged and of the one with the
# antecedent, from 0.
SCORED, ANTECEDENT = "scored sentence", "antecedent sentence"
REFERENCES = {ANTECEDENT: "ref ante segment", SCORED: "ref segment"}  # their references in an entry

Entry = dict[str, Any]


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a file of ctxpro."""
    data = read_json(path)
    first = data[0] if isinstance(data, list) and data else None
    if not isinstance(first, dict) or not {"expected", "rule"} <= first.keys():
        raise UserError(
            f"{path}: no suite of ctxpro (a list of entries with 'expected' and 'rule')"
        )
    return data


def film(entry: Entry) -> str | None:
    """Return which subtitles an entry is of (``document id``), or None where it does not say."""
    name = entry.get("document id")
    return None if name is None else str(name)


def read_items(items: Path, inputs: Path) -> Iterator[tuple[Entry, list[str]]]:
    """Yield the entries of a file of ctxpro, with ``SCORED`` and ``ANTECEDENT``, and their
    documents of ``inputs``.

    ``ANTECEDENT`` is left out where the source sentence at ``ante distance`` is not the entry's
    ``src ante segment``.

    Raises UserError, naming the line, for inputs that are not of these entries.
    """
    entries, lines = read_entries(items), list(read_lines(inputs))
    if len(entries) != len(lines):
        raise UserError(f"{inputs}: has {len(lines)} lines, but {items} has {len(entries)} entries")
    for number, (entry, line) in enumerate(zip(entries, lines, strict=True)):
        check_reserved(inputs, f"line {number + 1}", line)
        sentences = [clean_line(sentence) for sentence in line.split(SEPARATOR)]
        last = len(sentences) - 1
        if not _same(sentences[last], entry["src segment"]):
            raise fault(
                inputs,
                number + 1,
                f"its last sentence is not 'src segment' of entry {number} of {items}",
            )
        entry[SCORED] = last
        at = last - (entry.get("ante distance") or 0)
        known = 0 <= at < last and isinstance(entry.get("ref ante segment"), str)
        if known and _same(sentences[at], entry.get("src ante segment") or ""):
            entry[ANTECEDENT] = at
        yield entry, sentences


def _same(sentence: str, segment: str) -> bool:
    return sentence.split() == clean_line(segment).split()


def read_suite(
    items: Sequence[Path], inputs: Sequence[Path], without: Sequence[Path] = ()
) -> tuple[list[Entry], list[list[str]], Mapping[str, list[str]]]:
    """Return entries and documents of several files, and which entries were left out, by reason.

    Left out are entries whose expected word is none (``-`` in some published sets), and films of
    other files.

    Args:
        inputs: for each file of ``items``.
        without: files of ctxpro, such as a test set.
    """
    films = {film(entry) for path in without for entry in read_entries(path)} - {None}
    entries, documents, left_out = [], [], defaultdict(list)
    for paths in zip(items, inputs, strict=True):
        for number, (entry, document) in enumerate(read_items(*paths)):
            if not bare(entry["expected"]):
                left_out["without an expected word"].append(f"entry {number} of {paths[0].name}")
            elif film(entry) in films:
                left_out["of films that are in other files"].append(
                    f"entry {number} of {paths[0].name}"
                )
            else:
                entries.append(entry)
                documents.append(document)
    if not entries:
        raise UserError(f"{items[0]}: no item is left")
    return entries, documents, left_out


def write_sources(
    output: Path,
    split: str,
    langs: Sequence[str],
    entries: Sequence[Entry],
    documents: Sequence[Sequence[str]],
) -> list[Path]:
    """Write the source side of a split and, beside it, its entries."""
    items = output / f"ctxpro_{split}.json"
    source = raw_file(output, langs, split, langs[0])
    with atomic_write(source) as stream:
        stream.writelines(document_lines(documents))
    write_json(items, list(entries))
    return [source, items]


def with_translations(
    entries: Sequence[Entry], documents: Sequence[Sequence[str]], translations: Path, source: Path
) -> list[list[Pair]]:
    """Return documents with their target side: a translation of the source, and the references that
    entries have.

    ``translations``: of the file ``source``, line by line.
    """
    pairs = []
    targets = read_shaped(translations, [len(document) for document in documents], source)
    for entry, document, target in zip(entries, documents, targets, strict=True):
        for place, key in REFERENCES.items():
            if place in entry:
                text = clean_line(entry[key].replace("\n", " "))
                target[entry[place]] = check_reserved(source, f"item of {text!r}", text)
        pairs.append(list(zip(document, target, strict=True)))
    return pairs
