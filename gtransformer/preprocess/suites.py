"""Read published test sets whose items need context; their format is detected from their content.

ContraPro (Müller, Rios, Voita and Sennrich 2018), English to German, tests er, sie or es by the
antecedent. It has two forms:

* ``contrapro.json``: with pronouns and antecedent distance. It has no context, which is taken from
  the documents of OpenSubtitles2018, by document and segment.
* text: ``contrapro.text.{en,de}``, ``contrapro.context.{en,de}`` (as many lines of context per line
  of text, each) and ``groups.txt``, the line on which each group of candidates begins, and at last
  the number of lines. The first candidate of a group is right.

The English-Russian consistency sets of Voita, Sennrich and Titov (2019), deixis, ellipsis and
lexical cohesion: a JSON list; an entry has ``src`` (four sentences, tokenised, joined by `` _eos
``), ``dst`` (candidate translations of the four in the same form), ``true_ind`` (which of them is
right) and, for deixis and lexical cohesion, ``ctx_dist`` (how many sentences back the deciding
context is).

ctxpro (Wicks and Post 2023), sentences of films: a JSON list; an entry has ``expected``, the word
that the context requires, ``rule``, ``ante distance`` and ``document id``. It has no wrong
translations.

Its items also become documents of a raw corpus: the source context of each item, and the item's
sentence at its end. Its inputs are a line an item: the sentences of the source context and the
item's own, separated by ``<eos>``. There is no target side of the context: for training it is
translated, and where the target has the antecedent, the reference of that sentence
(``ref ante segment``) stands.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import regex

from gtransformer.errors import UserError
from gtransformer.files import either_form, read_json, read_lines
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.corpus import LeftOut, Pair, check_reserved, fault
from gtransformer.preprocess.plain_text import read_shaped

CTXPRO_BORDER = "<eos>"
# What is added to an entry: the numbers of the sentence that is judged and of the one with the
# antecedent, from 0.
SCORED, ANTECEDENT = "scored sentence", "antecedent sentence"
REFERENCES = {ANTECEDENT: "ref ante segment", SCORED: "ref segment"}  # their references in an entry

Entry = dict[str, Any]


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a file of ctxpro."""
    match data := read_json(path):
        case [{"expected": _, "rule": _}, *_]:
            return data
    raise UserError(f"{path}: no suite of ctxpro (a list of entries with 'expected' and 'rule')")


def expects_word(expected: str) -> bool:
    """Return whether an expected form has a word; a few of the published ones are a dash."""
    return any(map(str.isalnum, expected))


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
        sentences = [clean_line(sentence) for sentence in line.split(CTXPRO_BORDER)]
        last = len(sentences) - 1
        if not _same(sentences[last], entry["src segment"]):
            raise fault(
                inputs,
                number + 1,
                f"its last sentence is not 'src segment' of entry {number} of {items}",
            )
        entry[SCORED] = last
        at = last - (entry.get("ante distance") or 0)
        # Inputs that were made with less context lack the antecedent.
        known = 0 <= at < last and isinstance(entry.get("ref ante segment"), str)
        if known and _same(sentences[at], entry.get("src ante segment") or ""):
            entry[ANTECEDENT] = at
        yield entry, sentences


def _same(sentence: str, segment: str) -> bool:
    return sentence.split() == clean_line(segment).split()


def read_ctxpro(
    items: Sequence[Path], inputs: Sequence[Path], without: Sequence[Path]
) -> tuple[list[Entry], list[list[str]], LeftOut]:
    """Return entries and documents of several files, and which entries were left out.

    Left out are entries whose expected word is none (``-`` in some published sets), and films of
    other files.

    Args:
        inputs: for each file of ``items``.
        without: files of ctxpro, such as a test set.
    """
    if len(items) != len(inputs):
        raise UserError(
            f"--items has {len(items)} files, --inputs {len(inputs)}; give them in pairs"
        )
    films = {film(entry) for path in without for entry in read_entries(path)} - {None}
    entries, documents, left_out = [], [], defaultdict(list)
    for paths in zip(items, inputs, strict=True):
        for number, (entry, document) in enumerate(read_items(*paths)):
            name = f"entry {number} of {paths[0].name}"
            if not expects_word(entry["expected"]):
                left_out["items without an expected word"].append(name)
            elif film(entry) in films:
                left_out["items of films that are in other files"].append(name)
            else:
                entries.append(entry)
                documents.append(document)
    if not entries:
        raise UserError(f"{items[0]}: no item is left")
    return entries, documents, left_out


def with_translations(
    entries: Sequence[Entry], documents: Sequence[Sequence[str]], translations: Path
) -> Iterator[list[Pair]]:
    """Yield documents with their target side: a translation of the source, and the references that
    entries have.

    ``translations``: of the documents, line by line.
    """
    targets = read_shaped(translations, [len(document) for document in documents], "the items")
    for entry, document, target in zip(entries, documents, targets, strict=True):
        for place, key in REFERENCES.items():
            if place in entry:
                text = clean_line(entry[key].replace("\n", " "))
                target[entry[place]] = check_reserved("the items", f"item of {text!r}", text)
        yield list(zip(document, target, strict=True))


CONTRAPRO, LANGS = "ContraPro", ("en", "de")
VOITA_BORDER = "_eos"
Pairs = list[tuple[str, str]]  # of sentences


@dataclass(frozen=True)
class Item:
    """Source sentences and candidate translations of all of them, the ``correct``-th being right.

    Attributes:
        candidates: of ctxpro the reference alone.
        whole: a candidate's score is over all its sentences. Otherwise it is over the last one, and
            the others are its context.
        distance: to the deciding context, in sentences; None: unknown.
        film: or document; items of one film depend on each other. None: on no other.
        expected: the word that a translation must contain; of Voita et al. none.
    """

    id: int
    source: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    phenomenon: str
    distance: int | None = None
    film: str | None = None
    expected: str = ""
    correct: int = 0
    whole: bool = False


@dataclass(frozen=True)
class Suite:
    """The items of one or several files of a kind. ``tokenised``: their text is already
    tokenised.
    """

    name: str
    langs: tuple[str, ...]
    items: list[Item]
    tokenised: bool = False


def read_suite(
    paths: Sequence[Path], context: int | None = None, documents: Path | None = None
) -> Suite:
    """Read ContraPro (``contrapro.json`` or the directory of its text form), ctxpro, or files of
    Voita et al.

    Args:
        context: number of previous sentences for ContraPro (None: 1 for JSON, all for the text
            form).
        documents: folder of OpenSubtitles2018, for JSON with context.
    """
    first = paths[0]
    if first.is_dir():
        return Suite(CONTRAPRO, LANGS, _text_items(first, context))
    data = read_json(first)
    keys = data[0].keys() if isinstance(data, list) and data and isinstance(data[0], dict) else ()
    if "errors" in keys:
        return Suite(
            CONTRAPRO, LANGS, _json_items(data, 1 if context is None else context, documents)
        )
    if "expected" in keys:
        return Suite(
            "ctxpro", (), [_ctxpro_item(number, entry) for number, entry in enumerate(data)]
        )
    if "dst" in keys:
        return Suite(
            "Voita et al. 2019",
            ("en", "ru"),
            [item for path in paths for item in _voita_items(path)],
            True,
        )
    raise UserError(
        f"{first}: no test set that is known: contrapro.json ('src segment', 'errors', ...), a "
        "directory with contrapro.text.en, ctxpro ('expected', 'rule', ...), or the format of "
        "Voita et al. ('src', 'dst', ...)"
    )


def _ctxpro_item(number: int, entry: Entry) -> Item:
    texts = ((entry.get("src segment", ""),), ((entry.get("ref segment", ""),),))
    return Item(
        number, *texts, entry["rule"], entry.get("ante distance"), film(entry), entry["expected"]
    )


# ContraPro as JSON


def _json_items(data: Sequence[dict[str, Any]], context: int, documents: Path | None) -> list[Item]:
    """Return the items of ``contrapro.json``, with ``context`` previous sentences from the
    documents.
    """
    if context and documents is None:
        raise UserError(
            "the context is not in this file; give the documents of OpenSubtitles2018 with "
            "--documents, or score the sentences alone (--context 0)"
        )
    before = _contexts(data, documents, context) if context else [[]] * len(data)
    items = []
    for number, entry in enumerate(data):
        texts = [entry["ref segment"], *(error["contrastive"] for error in entry["errors"])]
        phenomenon = f"{entry['src pronoun']}:{entry['ref pronoun']}".lower()
        known = entry.get("ante distance"), film(entry)
        items.append(_item(number, before[number], entry["src segment"], texts, phenomenon, *known))
    return items


def _contexts(data: Sequence[dict[str, Any]], folder: Path, count: int) -> list[Pairs]:
    """Return up to ``count`` pairs of segments before each entry, without empty pairs.

    Warns of entries that are not the line of their ``segment id``. Raises UserError if most are
    not: then these are not the suite's documents.
    """
    read = lru_cache(1)(lambda name: _read_pairs(folder, name))  # entries are ordered by document
    before, matching = [], 0
    for entry in data:
        lines, index = read(str(entry["document id"])), int(entry["segment id"]) - 1
        matching += index < len(lines) and lines[index][0].split() == entry["src segment"].split()
        before.append([pair for pair in lines[:index] if any(pair)][-count:])
    if 2 * matching <= len(data):
        raise UserError(
            f"{folder}: only {matching} of {len(data)} segments match the line of their 'segment "
            "id'; give the OpenSubtitles2018 documents that ContraPro was made from, one segment a "
            "line"
        )
    if matching < len(data):
        logging.getLogger(__name__).warning(
            "%d segments are not the line of their 'segment id' in %s; their context may be wrong",
            len(data) - matching, folder,
        )  # fmt: skip
    return before


# ContraPro as text


def _text_items(folder: Path, context: int | None) -> list[Item]:
    """Return the items of a directory in text form, with at most ``context`` (None: all) previous
    sentences.

    The phenomenon is the German pronoun. Distances and films are unknown.
    """
    text, around = _read_pairs(folder, "contrapro.text"), _read_pairs(folder, "contrapro.context")
    starts = [int(line) for line in read_lines(either_form(folder / "groups.txt"))]
    each, rest = divmod(len(around), len(text))
    if rest or starts[-1] != len(text):
        raise UserError(
            f"{folder}: contrapro.context, groups.txt and contrapro.text do not belong together"
        )
    items = []
    for number, (start, end) in enumerate(pairwise(starts)):
        before = [pair for pair in around[each * start : each * (start + 1)] if any(pair)]
        if context is not None:
            before = before[max(0, len(before) - context) :]
        items.append(
            _item(number, before, text[start][0], [german for _, german in text[start:end]])
        )
    return items


def _read_pairs(folder: Path, name: str) -> Pairs:
    """Return the aligned lines of NAME.en and NAME.de; ValueError for unequal numbers."""
    sides = [
        [line.strip() for line in read_lines(either_form(folder / f"{name}.{lang}"))]
        for lang in LANGS
    ]
    return list(zip(*sides, strict=True))


def _item(
    number: int, before: Pairs, source: str, texts: list[str], phenomenon: str = "", *known: Any
) -> Item:
    """Return an item of ContraPro: a sentence with previous pairs, and candidates of which the
    first is right.

    The expected word is the first, lower-cased, in which it differs from a wrong one (*ihn*, where
    the suite's ``ref pronoun`` is *er*); it is the phenomenon if none is given.
    """
    sides = zip_longest(*(regex.findall(r"\w+", text.lower()) for text in texts[:2]))
    expected = next(
        (right for right, wrong in sides if right is not None and right != wrong), "other"
    )
    candidates = tuple((*(german for _, german in before), text.strip()) for text in texts)
    sources = *(english for english, _ in before), source.strip()
    return Item(
        number, sources, candidates, phenomenon or expected, *(known or (None, None)), expected
    )


# Voita et al.


def _voita_items(path: Path) -> list[Item]:
    """Return the items of a file; its name is the phenomenon."""
    items = []
    for number, entry in enumerate(read_json(path)):
        source, *targets = map(_split_sentences, (entry["src"], *entry["dst"]))
        if {len(target) for target in targets} != {len(source)}:
            raise UserError(
                f"{path}: entry {number}: sentences (by {VOITA_BORDER}) of source and translations "
                "differ"
            )
        phenomenon, distance = path.name.split(".")[0], entry.get("ctx_dist")
        right = entry["true_ind"]
        items.append(
            Item(number, source, tuple(targets), phenomenon, distance, correct=right, whole=True)
        )
    return items


def _split_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences that ``_eos`` separates, with single spaces."""
    return tuple(" ".join(sentence.split()) for sentence in f" {text} ".split(f" {VOITA_BORDER} "))
