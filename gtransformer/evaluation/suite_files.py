"""Read published contrastive suites; their format is detected from their content.

ContraPro (Müller, Rios, Voita and Sennrich 2018), English to German, tests er, sie or es by the antecedent. It has two
forms:

* ``contrapro.json``: with pronouns and antecedent distance. It has no context, which is taken from the documents of
  OpenSubtitles2018, by document and segment.
* text: ``contrapro.text.{en,de}``, ``contrapro.context.{en,de}`` (as many lines of context per line of text, each),
  ``contrapro.context.right.{en,de}`` (our addition: in the same way the following lines; read only with
  --context-right) and ``groups.txt``, the line on which each group of candidates begins. The first candidate of a group
  is right.

The English-Russian consistency sets of Voita, Sennrich and Titov (2019), deixis, ellipsis and lexical cohesion: a JSON
list; an entry has ``src`` (four sentences, tokenised, joined by `` _eos ``), ``dst`` (candidate translations of the
four in the same form), ``true_ind`` (which of them is right) and, for deixis and lexical cohesion, ``ctx_dist`` (how
many sentences back the deciding context is).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import regex

from gtransformer.errors import UserError
from gtransformer.evaluation.suites import Example
from gtransformer.files import are_texts, check_entry, read_json, read_lines
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.corpus import check_reserved
from gtransformer.preprocess.ctxpro import SCORED, WRONG, Entry

CONTRAPRO, LANGS = "ContraPro", ("en", "de")
TEXTS = ("src segment", "ref segment", "src pronoun", "ref pronoun")
OTHER = "other"
UNMATCHED = "note: {} segments are not the line of their 'segment id' in the documents; their context may be wrong"
MAX_DISTANCE = 3  # sentences; antecedents further back are reported together
SEPARATOR = "_eos"
# Names of the published files of Voita et al., and what they test.
PHENOMENA = {
    "deixis": "deixis",
    "lex": "lexical cohesion",
    "ellipsis_infl": "ellipsis, inflection",
    "ellipsis_vp": "ellipsis, verb phrase",
}
# Possible paths of the side LANG of an OpenSubtitles document ID below the directory; files may be compressed.
PATTERNS = ("{id}.{lang}", "{id}_{lang}", "{lang}/{id}", "{id}/{lang}")
ENDINGS = ("", ".txt", ".xz", ".gz", ".txt.xz", ".txt.gz")
Pairs = list[tuple[str, str]]  # of sentences


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
    unmatched: int | None = None


def is_own_suite(path: Path) -> bool:
    """Return whether a file is a contrastive set over a prepared corpus (``evaluation.contrastive``), as the demo's."""
    return not path.is_dir() and isinstance(read_json(path), dict)


def read_suite(
    paths: Sequence[Path], context: int | None = None, documents: Path | None = None, behind: int = 0
) -> Suite:
    """Read one ContraPro suite (``contrapro.json`` or the directory of its text form) or files of Voita et al.

    ``context``: number of previous sentences for ContraPro (None: 1 for JSON, all for the text form); ``behind``: of
    following ones. Raises UserError for other files, for a mixture of kinds, and for options that do not apply.
    """
    first = paths[0]
    data = None if first.is_dir() else read_json(first)
    if data == []:
        raise UserError(f"{first}: has no entries; give contrapro.json or a file of Voita et al.")
    if data is None or _has_key(data, "src segment"):
        if len(paths) > 1:
            raise UserError(f"{paths[1]}: ContraPro is scored alone; give one file or directory with --items")
        if data is None and documents is not None:
            raise UserError(f"{documents}: ContraPro's text form holds its context; leave out --documents")
        if data is None:
            return Suite(CONTRAPRO, LANGS, False, _text_examples(first, context, behind))
        before = 1 if context is None else context
        return Suite(CONTRAPRO, LANGS, False, *_json_examples(data, first, before, behind, documents))
    if context is not None or behind or documents is not None:
        raise UserError(f"{first}: --context, --context-right and --documents are for ContraPro; leave them out")
    examples: list[Example] = []
    for path in paths:
        data = data if path == first else read_json(path)
        if not _has_key(data, "dst"):
            raise UserError(
                f"{path}: not a contrastive suite; expected contrapro.json ('src segment', ...), a directory with "
                "contrapro.text.en, the format of Voita et al. ('src', 'dst', ...), or a single set of the demo's kind"
            )
        examples += _voita_examples(data, path)
    return Suite("Voita et al. 2019", ("en", "ru"), True, examples)


def _has_key(data: object, key: str) -> bool:
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and key in data[0]


def contrapro_documents(
    path: Path, context: int | None = None, documents: Path | None = None
) -> tuple[list[Entry], list[list[str]], int]:
    """Return ContraPro for generation: entries in the form of ctxpro's, each one's source document, and the number of
    segments that differ from their line (``Suite.unmatched``).

    The document is the context and the sentence, which is last. The expected form is the word of the
    reference that differs in the candidates (*ihn*, where the suite's ``ref pronoun`` is *er*). Their words are
    ``WRONG``. Arguments and errors are as in ``read_suite``.
    """
    suite = read_suite([path], context, documents)
    if suite.name != CONTRAPRO:
        raise UserError(f"{path}: not ContraPro (contrapro.json, or a directory with contrapro.text.en)")
    data = [{}] * len(suite.examples) if path.is_dir() else read_json(path)
    entries, sources = [], []
    for example, given in zip(suite.examples, data, strict=True):
        *before, sentence = map(clean_line, example.source)
        for one in (*before, sentence):
            check_reserved(path, f"entry {example.id}", one)
        right, *wrong = (text[-1] for text in example.candidates)
        source = [*filter(None, before), sentence]
        expected = next((word for text in wrong if (word := differing_word(right, text)) != OTHER), None)
        if expected is None:
            raise UserError(
                f"{path}: entry {example.id}: no word of the right translation differs in a wrong one; leave it out"
            )
        distance = given.get("ante distance")
        entries.append(
            {
                "src segment": sentence,
                "ref segment": right,
                "rule": example.groups["phenomenon"],
                "expected": expected,
                WRONG: [word for text in wrong if (word := differing_word(text, right)) != OTHER],
                **({} if distance_name(distance) == "unknown" else {"ante distance": distance}),
                **{key: given[key] for key in ("document id", "segment id") if key in given},
                SCORED: len(source) - 1,
            }
        )
        sources.append(source)
    return entries, sources, suite.unmatched or 0


# ContraPro as JSON


def _json_examples(
    data: list, path: Path, before: int, behind: int, documents: Path | None
) -> tuple[list[Example], int | None]:
    """Return the examples of a parsed ``contrapro.json``, with previous and following sentences from ``documents``, and
    the number of segments that differ from their line (None: not read).
    """
    wanted = before + behind > 0
    if documents is not None and not wanted:
        raise UserError(f"{documents}: with --context 0 no documents are read; leave out --documents")
    for number, entry in enumerate(data):
        given = entry if isinstance(entry, dict) else {}
        valid = {key: are_texts([given.get(key)]) for key in TEXTS}
        valid |= {key: key in given for key in ("ante distance", "intrasegmental")}
        errors = given.get("errors") if isinstance(given.get("errors"), list) else []
        texts = [one.get("contrastive") if isinstance(one, dict) else None for one in errors]
        valid["errors"] = bool(texts) and are_texts(texts)
        if wanted:  # keys of its context
            valid["document id"] = "document id" in given
            valid["segment id"] = str(given.get("segment id", "")).isdecimal()
        check_entry(f"{path}: entry {number}", valid)
    if wanted and documents is None:
        raise UserError(
            f"{path}: the context is not in this file; give the documents of OpenSubtitles2018 with --documents, "
            "or score the sentences alone (--context 0, no --context-right)"
        )
    around, unmatched = _contexts(data, documents, before, behind) if wanted else ([([], [])] * len(data), None)
    examples = []
    for number, entry in enumerate(data):
        texts = [entry["ref segment"], *(error["contrastive"] for error in entry["errors"])]
        groups = {
            "phenomenon": f"{entry['src pronoun']}:{entry['ref pronoun']}".lower(),
            "distance": distance_name(entry["ante distance"]),
            "intrasegmental": {"True": "yes", "False": "no"}.get(str(entry["intrasegmental"]), "unknown"),
        }
        examples.append(_example(number, *around[number], entry["src segment"], texts, groups))
    return examples, unmatched


def distance_name(distance: object) -> str:
    """Return ``"0"`` to ``"3"``, ``">3"``, or ``"unknown"`` if the suite has no number."""
    if isinstance(distance, bool) or not isinstance(distance, int):
        return "unknown"
    return str(distance) if distance <= MAX_DISTANCE else f">{MAX_DISTANCE}"


def _contexts(
    data: Sequence[dict[str, Any]], folder: Path, before: int, behind: int
) -> tuple[list[tuple[Pairs, Pairs]], int]:
    """Return the pairs of segments before and behind each entry, at most the given numbers, without empty pairs; and
    how many entries' segments differ from their line.

    Segment ids count from 1 or from 0, whichever matches more segments with their lines. Raises UserError if at most
    half match: then these are not the suite's documents.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such directory; give the documents of OpenSubtitles2018")
    read = lru_cache(1)(partial(_read_document, folder))  # examples are ordered by document
    keys = [(str(entry["document id"]), int(entry["segment id"])) for entry in data]
    order = sorted(range(len(data)), key=keys.__getitem__)
    found = {1: 0, 0: 0}
    for number in order:
        (identity, segment), text = keys[number], data[number]["src segment"].split()
        lines = read(identity)
        for base in found:
            found[base] += 0 <= segment - base < len(lines) and lines[segment - base][0].split() == text
    base = max(found, key=found.__getitem__)
    if 2 * found[base] <= len(data):
        raise UserError(
            f"{folder}: only {found[base]} of {len(data)} segments match the line of their 'segment id'; give "
            "the OpenSubtitles2018 documents that ContraPro was made from, one segment a line"
        )
    around: list[tuple[Pairs, Pairs]] = [([], []) for _ in data]
    for number in order:
        identity, segment = keys[number]
        lines, index = read(identity), segment - base
        if 0 <= index < len(lines):  # a line beyond the document has no context
            earlier, later = ([pair for pair in part if any(pair)] for part in (lines[:index], lines[index + 1 :]))
            around[number] = earlier[max(0, len(earlier) - before) :], later[:behind]
    return around, len(data) - found[base]


def _read_document(folder: Path, identity: str) -> Pairs:
    """Return the aligned segments of a document; UserError if a side is missing or their numbers of lines differ."""
    sides = []
    for lang in LANGS:
        names = [pattern.format(id=identity, lang=lang) + ending for pattern in PATTERNS for ending in ENDINGS]
        path = next((folder / name for name in names if (folder / name).is_file()), None)
        if path is None:
            raise UserError(
                f"{folder / names[0]}: no such file; documents are searched as "
                f"{', '.join(pattern.format(id='ID', lang='LANG') for pattern in PATTERNS)} by their 'document id'"
            )
        sides.append([line.strip() for line in read_lines(path)])
        if len(sides[0]) != len(sides[-1]):
            raise UserError(f"{path}: {len(sides[1])} lines, but {len(sides[0])} on the other side of the document")
    return list(zip(*sides, strict=True))


# ContraPro as text


def _text_examples(folder: Path, before: int | None, behind: int) -> list[Example]:
    """Return the examples of a directory in text form, with at most ``before`` (None: all) previous and ``behind``
    following sentences.

    The phenomenon is the German pronoun, the first word in which the right candidate differs from a wrong one.
    Distances are unknown. Raises UserError, naming file and line, if files are not aligned.
    """
    text = [pair for (pair,) in _read_pairs(folder, "text")]
    starts = _read_groups(_find(folder, "groups.txt"), len(text))
    earlier = _read_pairs(folder, "context", len(text))
    later = _read_pairs(folder, "context.right", len(text)) if behind else [[]] * len(text)
    examples = []
    for number, (start, end) in enumerate(zip(starts, starts[1:], strict=False)):
        (source, right), (_, wrong) = text[start : start + 2]
        left, rest = ([pair for pair in side[start] if any(pair)] for side in (earlier, later))
        left = left if before is None else left[max(0, len(left) - before) :]
        groups, candidates = {"phenomenon": differing_word(right, wrong)}, [german for _, german in text[start:end]]
        examples.append(_example(number, left, rest[:behind], source, candidates, groups))
    return examples


def _read_pairs(folder: Path, name: str, lines: int | None = None) -> list[Pairs]:
    """Return for each of the text's ``lines`` its sentences in contrapro.NAME.en and .de; some may be empty."""
    paths = [_find(folder, f"contrapro.{name}.{lang}") for lang in LANGS]
    sides = [[line.strip() for line in read_lines(path)] for path in paths]
    lines = len(sides[0]) if lines is None else lines
    each = len(sides[0]) // max(1, lines)
    for path, side in zip(paths, sides, strict=True):
        if len(side) != each * lines or not each:
            raise UserError(
                f"{path}, line {len(side)}: the file ends here, which does not match the {lines} lines of "
                "contrapro.text.en; the files must be aligned line by line"
            )
    pairs = list(zip(*sides, strict=True))
    return [pairs[each * line : each * (line + 1)] for line in range(lines)]


def _find(folder: Path, name: str) -> Path:
    """Return the path of the file, compressed or not."""
    return next((path for end in (".xz", ".gz") if (path := folder / (name + end)).is_file()), folder / name)


def _read_groups(path: Path, lines: int) -> list[int]:
    """Return the lines on which groups begin, and the end as last; every group has at least two lines."""
    starts: list[int] = []
    for number, line in enumerate(read_lines(path), 1):
        digits = line.strip()  # Python does not convert thousands of digits
        least = starts[-1] + 2 if starts else 0
        valid = digits.isdecimal() and len(digits) <= 18 and least <= int(digits) <= lines
        if not valid or (not starts and int(digits)):
            raise UserError(
                f"{path}, line {number}: {line[:20]!r} is not the zero-based line, at most {lines}, on which the next "
                "group of at least two candidates begins"
            )
        starts.append(int(digits))
    if len(starts) < 2 or starts[-1] != lines:
        raise UserError(f"{path}, line {len(starts)}: the last line must mark the end, the {lines} lines of the text")
    return starts


def differing_word(right: str, wrong: str) -> str:
    """Return the first word, lower-cased, of ``right`` that differs in ``wrong``; ``OTHER`` if there is none."""
    pairs = zip_longest(*(regex.findall(r"\w+", text.lower()) for text in (right, wrong)))
    return next((first for first, second in pairs if first is not None and first != second), OTHER)


def _example(
    number: int, before: Pairs, behind: Pairs, source: str, texts: list[str], groups: dict[str, str]
) -> Example:
    """Return an example: a sentence with previous and following pairs."""
    (left, left_target), (right, right_target) = (
        [[pair[side] for pair in pairs] for side in (0, 1)] for pairs in (before, behind)
    )
    candidates = tuple((*left_target, text.strip(), *right_target) for text in texts)
    return Example(number, (*left, source.strip(), *right), candidates, 0, False, groups, len(behind))


# Voita et al.


def _voita_examples(data: list, path: Path) -> list[Example]:
    """Return the examples of a parsed file. Raises UserError, naming the entry, if it is not in the format."""
    stem = path.name.split(".")[0]  # an unknown name is used as it is
    phenomenon = next((title for start, title in PHENOMENA.items() if stem.startswith(start)), stem)
    examples = []
    for number, entry in enumerate(data):
        where, given = f"{path}: entry {number}", entry if isinstance(entry, dict) else {}
        candidates, right, distance = given.get("dst"), given.get("true_ind"), given.get("ctx_dist")
        several = are_texts(candidates) and len(candidates) > 1
        valid = {"src": are_texts([given.get("src")]), "dst": several}
        valid["true_ind"] = several and type(right) is int and 0 <= right < len(candidates)
        valid["ctx_dist"] = distance is None or isinstance(distance, int)
        check_entry(where, valid)
        source, *targets = map(_split_sentences, (given["src"], *candidates))
        for target in targets:
            if len(target) != len(source):
                raise UserError(
                    f"{where}: a translation of {len(target)} sentences for {len(source)}, by {SEPARATOR}; correct it"
                )
        groups = {"phenomenon": phenomenon} | ({} if distance is None else {"distance": str(distance)})
        examples.append(Example(number, source, tuple(targets), right, True, groups))
    return examples


def _split_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences that ``_eos`` separates, with single spaces."""
    sentences: list[list[str]] = [[]]
    for word in text.split():
        if word == SEPARATOR:
            sentences.append([])
        else:
            sentences[-1].append(word)
    return tuple(map(" ".join, sentences))
