"""Read published contrastive suites; their format is detected from their content.

ContraPro (Müller, Rios, Voita and Sennrich 2018), English to German, tests er, sie or es by the antecedent. It has two
forms:

* ``contrapro.json``: with pronouns and antecedent distance. It has no context, which is taken from the documents of
  OpenSubtitles2018, by document and segment.
* text: ``contrapro.text.{en,de}``, ``contrapro.context.{en,de}`` (as many lines of context per line of text, each) and
  ``groups.txt``, the line on which each group of candidates begins, and at last the number of lines. The first
  candidate of a group is right.

The English-Russian consistency sets of Voita, Sennrich and Titov (2019), deixis, ellipsis and lexical cohesion: a JSON
list; an entry has ``src`` (four sentences, tokenised, joined by `` _eos ``), ``dst`` (candidate translations of the
four in the same form), ``true_ind`` (which of them is right) and, for deixis and lexical cohesion, ``ctx_dist`` (how
many sentences back the deciding context is).
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import regex

from gtransformer.errors import UserError
from gtransformer.files import read_json, read_lines
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.ctxpro import SCORED, Entry

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)  # of ASCII, as in ctxpro's scorer
CONTRAPRO, LANGS = "ContraPro", ("en", "de")
MAX_DISTANCE = 3  # sentences; antecedents further back are reported together
SEPARATOR = "_eos"
UNMATCHED = "note: {} segments are not the line of their 'segment id' in the documents; their context may be wrong"
Pairs = list[tuple[str, str]]  # of sentences


@dataclass(frozen=True)
class Example:
    """Source sentences and candidate translations of all of them, the ``correct``-th being right.

    Attributes:
        whole: a candidate's score is over all its sentences. Otherwise it is over the last one, and the others are its
            context.
        groups: groups of the example in the report: ``{"phenomenon": "it:er", "distance": "1"}``.
    """

    id: int
    source: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    correct: int
    whole: bool
    groups: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """The examples of one or several files of a kind.

    Attributes:
        tokenised: their text is already tokenised.
        unmatched: ContraPro's JSON with documents: segments that differ from the line of their id. Their context may be
            wrong.
    """

    name: str
    langs: tuple[str, str]
    tokenised: bool
    examples: list[Example]
    unmatched: int = 0


def read_suite(paths: Sequence[Path], context: int | None = None, documents: Path | None = None) -> Suite:
    """Read one ContraPro suite (``contrapro.json`` or the directory of its text form) or files of Voita et al.

    Args:
        context: number of previous sentences for ContraPro (None: 1 for JSON, all for the text form).
        documents: folder of OpenSubtitles2018, for JSON with context.
    """
    first = paths[0]
    if first.is_dir():
        return Suite(CONTRAPRO, LANGS, False, _text_examples(first, context))
    data = read_json(first)
    if not isinstance(data, list) or not data or not {"src segment", "dst"} & data[0].keys():
        raise UserError(
            f"{first}: not a contrastive suite; expected contrapro.json ('src segment', ...), a directory with "
            "contrapro.text.en, or the format of Voita et al. ('src', 'dst', ...)"
        )
    if "src segment" in data[0]:
        if len(paths) > 1:
            raise UserError(f"{paths[1]}: ContraPro is one file; several are for the sets of Voita et al.")
        examples, unmatched = _json_examples(data, 1 if context is None else context, documents)
        return Suite(CONTRAPRO, LANGS, False, examples, unmatched)
    if context is not None or documents is not None:
        raise UserError(f"{first}: has its own context; leave --context and --documents out")
    return Suite("Voita et al. 2019", ("en", "ru"), True, [one for path in paths for one in _voita_examples(path)])


def contrapro_documents(
    path: Path, context: int | None = None, documents: Path | None = None
) -> tuple[list[Entry], list[list[str]], int]:
    """Return ContraPro for generation: entries in the form of ctxpro's, each one's source document, and the number of
    segments that differ from their line (``Suite.unmatched``).

    The document is the context and the sentence, which is last. The expected form is the word of the reference that
    differs in the candidates (*ihn*, where the suite's ``ref pronoun`` is *er*). Arguments are as in ``read_suite``.
    """
    suite = read_suite([path], context, documents)
    data = [{}] * len(suite.examples) if path.is_dir() else read_json(path)
    entries, sources = [], []
    for example, given in zip(suite.examples, data, strict=True):
        source = [sentence for sentence in map(clean_line, example.source) if sentence]
        right, *wrong = (text[-1] for text in example.candidates)
        known = {key: given[key] for key in ("ante distance", "document id", "segment id") if key in given}
        entry = {
            "src segment": source[-1],
            "ref segment": right,
            "rule": example.groups["phenomenon"],
            "expected": differing_word(right, wrong[0]),
            SCORED: len(source) - 1,
        }
        entries.append(entry | known)
        sources.append(source)
    return entries, sources, suite.unmatched


def read_entries(path: Path) -> tuple[list[Entry], list[int]]:
    """Return the entries of ctxpro or ContraPro for generation, and the numbers of those without an expected word.

    ctxpro's are those of its file; ContraPro's have the same form.
    """
    data = None if path.is_dir() else read_json(path)
    of_ctxpro = isinstance(data, list) and {"expected", "rule"} <= data[0].keys()
    entries = data if of_ctxpro else _without_context(path)
    odd = [
        number for number, entry in enumerate(entries) if not entry["expected"].translate(WITHOUT_PUNCTUATION).strip()
    ]
    return entries, odd


def _without_context(path: Path) -> list[Entry]:
    """Return ContraPro's entries for documents of any number of sentences."""
    entries, _, _ = contrapro_documents(path, 0)
    return [{key: value for key, value in entry.items() if key != SCORED} for entry in entries]


# ContraPro as JSON


def _json_examples(data: Sequence[dict[str, Any]], context: int, documents: Path | None) -> tuple[list[Example], int]:
    """Return the examples of a parsed ``contrapro.json``, with up to ``context`` previous sentences, and how many
    differ from their line in the documents.
    """
    if context and documents is None:
        raise UserError(
            "the context is not in this file; give the documents of OpenSubtitles2018 with --documents, or score the "
            "sentences alone (--context 0)"
        )
    before, unmatched = _contexts(data, documents, context) if context else ([[]] * len(data), 0)
    examples = []
    for number, entry in enumerate(data):
        texts = [entry["ref segment"], *(error["contrastive"] for error in entry["errors"])]
        groups = {
            "phenomenon": f"{entry['src pronoun']}:{entry['ref pronoun']}".lower(),
            "distance": distance_name(entry["ante distance"]),
        }
        examples.append(_example(number, before[number], entry["src segment"], texts, groups))
    return examples, unmatched


def distance_name(distance: int | None) -> str:
    """Return ``"0"`` to ``"3"``, ``">3"``, or ``"unknown"`` if the suite has no number."""
    if distance is None:
        return "unknown"
    return str(distance) if distance <= MAX_DISTANCE else f">{MAX_DISTANCE}"


def _contexts(data: Sequence[dict[str, Any]], folder: Path, count: int) -> tuple[list[Pairs], int]:
    """Return up to ``count`` pairs of segments before each entry, without empty pairs, and how many entries differ from
    their line.

    Raises UserError if most entries are not the line of their ``segment id``: then these are not the suite's documents.
    """
    read = lru_cache(1)(lambda name: _read_pairs(folder, name))  # examples are ordered by document
    before, matching = [], 0
    for entry in data:
        lines, index = read(str(entry["document id"])), int(entry["segment id"]) - 1
        matching += index < len(lines) and lines[index][0].split() == entry["src segment"].split()
        before.append([pair for pair in lines[:index] if any(pair)][-count:])
    if 2 * matching <= len(data):
        raise UserError(
            f"{folder}: only {matching} of {len(data)} segments match the line of their 'segment id'; give the "
            "OpenSubtitles2018 documents that ContraPro was made from, one segment a line"
        )
    return before, len(data) - matching


# ContraPro as text


def _text_examples(folder: Path, context: int | None) -> list[Example]:
    """Return the examples of a directory in text form, with at most ``context`` (None: all) previous sentences.

    The phenomenon is the German pronoun, the first word in which the right candidate differs from a wrong one.
    Distances are unknown.
    """
    text, around = _read_pairs(folder, "contrapro.text"), _read_pairs(folder, "contrapro.context")
    starts = [int(line) for line in read_lines(_find(folder, "groups.txt"))]
    each, rest = divmod(len(around), len(text))
    if rest or starts[-1] != len(text):
        raise UserError(f"{folder}: contrapro.context, groups.txt and contrapro.text do not belong together")
    examples = []
    for number, (start, end) in enumerate(pairwise(starts)):
        (source, right), (_, wrong) = text[start : start + 2]
        before = [pair for pair in around[each * start : each * (start + 1)] if any(pair)]
        if context is not None:
            before = before[max(0, len(before) - context) :]
        candidates = [german for _, german in text[start:end]]
        examples.append(_example(number, before, source, candidates, {"phenomenon": differing_word(right, wrong)}))
    return examples


def _read_pairs(folder: Path, name: str) -> Pairs:
    """Return the aligned lines of NAME.en and NAME.de; ValueError for unequal numbers."""
    sides = [[line.strip() for line in read_lines(_find(folder, f"{name}.{lang}"))] for lang in LANGS]
    return list(zip(*sides, strict=True))


def _find(folder: Path, name: str) -> Path:
    """Return the path of the file, compressed or not."""
    return next((path for end in (".xz", ".gz") if (path := folder / (name + end)).is_file()), folder / name)


def differing_word(right: str, wrong: str) -> str:
    """Return the first word, lower-cased, of ``right`` that differs in ``wrong``; ``other`` if there is none."""
    pairs = zip_longest(*(regex.findall(r"\w+", text.lower()) for text in (right, wrong)))
    return next((first for first, second in pairs if first is not None and first != second), "other")


def _example(number: int, before: Pairs, source: str, texts: list[str], groups: dict[str, str]) -> Example:
    """Return an example: a sentence with previous pairs."""
    candidates = tuple((*(german for _, german in before), text.strip()) for text in texts)
    return Example(number, (*(english for english, _ in before), source.strip()), candidates, 0, False, groups)


# Voita et al.


def _voita_examples(path: Path) -> list[Example]:
    """Return the examples of a file; its name is the phenomenon."""
    examples = []
    for number, entry in enumerate(read_json(path)):
        source, *targets = map(_split_sentences, (entry["src"], *entry["dst"]))
        if {len(target) for target in targets} != {len(source)}:
            raise UserError(f"{path}: entry {number}: sentences (by {SEPARATOR}) of source and translations differ")
        groups = {"phenomenon": path.name.split(".")[0]}
        if entry.get("ctx_dist") is not None:
            groups["distance"] = str(entry["ctx_dist"])
        examples.append(Example(number, source, tuple(targets), entry["true_ind"], True, groups))
    return examples


def _split_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences that ``_eos`` separates, with single spaces."""
    return tuple(" ".join(sentence.split()) for sentence in f" {text} ".split(f" {SEPARATOR} "))
