"""ContraPro (Müller, Rios, Voita and Sennrich 2018): does the model choose er, sie or es by the antecedent?

Two forms are read:

* ``contrapro.json``: the published suite, with pronouns and antecedent distance; the context is not in it and is taken
  from OpenSubtitles2018 by document and segment.
* text: ``contrapro.text.{en,de}``, ``contrapro.context.{en,de}`` (as many lines of context per line of text, each) and
  ``groups.txt``, the line on which each group of candidates begins. The first candidate of a group is the right one.

An example counts if the right translation of the sentence is strictly more probable than each wrong one, the context
being given on both sides.
"""

from __future__ import annotations

import re
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.suites.example import Example
from gtransformer.evaluation.suites.opensubtitles import Subtitles, context_before, find_base
from gtransformer.files import read_lines

LANGS = ("en", "de")
FAR = 3  # sentences; antecedents further back are reported together


def is_contrapro(data: object) -> bool:
    """Whether parsed JSON is the suite."""
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "src segment" in data[0]


def json_examples(data: list, path: str | Path, context: int, documents: str | Path | None) -> list[Example]:
    """The examples of a parsed ``contrapro.json``, with ``context`` sentences before each from ``documents``.

    Raises UserError, naming the entry, where a key is missing, and if there is context to add but no documents.
    """
    for number, entry in enumerate(data):
        _check(entry, f"{path}: entry {number}", context)
    before = _contexts(data, path, context, documents) if context else [[] for _ in data]
    examples = []
    for number, entry in enumerate(data):
        texts = [entry["ref segment"], *(error["contrastive"] for error in entry["errors"])]
        groups = {
            "phenomenon": f"{entry['src pronoun']}:{entry['ref pronoun']}".lower(),
            "distance": distance_name(entry["ante distance"]),
            "intrasegmental": {True: "yes", False: "no"}.get(entry["intrasegmental"], "unknown"),
        }
        examples.append(_example(number, before[number], entry["src segment"], texts, groups))
    return examples


def _contexts(data: list, path: str | Path, count: int, folder: str | Path | None) -> list[list[tuple[str, str]]]:
    """The pairs of sentences before every entry; documents are read one after the other, each once or twice."""
    if folder is None:
        raise UserError(
            f"{path}: the context is not in this file; give the documents of OpenSubtitles2018 with --documents, "
            "or score the sentences alone with --context 0"
        )
    documents = Subtitles(folder, LANGS)
    places = [(str(entry["document id"]), int(entry["segment id"])) for entry in data]
    order = sorted(range(len(data)), key=lambda number: places[number])
    base = find_base(documents, [(*places[number], data[number]["src segment"]) for number in order])
    before: list[list[tuple[str, str]]] = [[] for _ in data]
    for number in order:
        identity, segment = places[number]
        before[number] = context_before(documents, identity, segment - base, count)
    return before


def _check(entry: object, where: str, context: int) -> None:
    """UserError unless an entry has what the scorer needs."""
    if not isinstance(entry, dict):
        raise UserError(f"{where} is not an object; correct it")
    for key in ("src segment", "ref segment", "src pronoun", "ref pronoun"):
        if not isinstance(entry.get(key), str):
            raise UserError(f"{where} has no valid {key!r} (text); correct it")
    for key in ("ante distance", "intrasegmental"):
        if key not in entry:
            raise UserError(f"{where} has no {key!r}; correct it")
    errors = entry.get("errors")
    texts = (
        [error.get("contrastive") for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    )
    if not texts or len(texts) != len(errors) or not all(isinstance(text, str) for text in texts):
        raise UserError(f"{where} has no valid 'errors' (list of objects with a text 'contrastive'); correct it")
    if context and ("document id" not in entry or not str(entry.get("segment id", "")).isdecimal()):
        raise UserError(f"{where} has no 'document id' and whole 'segment id' to find its context by; correct it")


def distance_name(distance: object) -> str:
    """``"0"`` to ``"3"``, ``">3"``, or ``"unknown"`` where the suite has no number."""
    if isinstance(distance, bool) or not isinstance(distance, int):
        return "unknown"
    return str(distance) if distance <= FAR else f">{FAR}"


def text_examples(folder: str | Path, context: int | None) -> list[Example]:
    """The examples of a directory in text form; at most ``context`` sentences before each (None: all there are).

    The phenomenon is the German pronoun, the first word in which the right candidate differs from a wrong one;
    distances are not known. Raises UserError, naming file and line, where files are not aligned.
    """
    folder = Path(folder)
    text = {lang: list(read_lines(_find(folder, f"contrapro.text.{lang}"))) for lang in LANGS}
    around = {lang: list(read_lines(_find(folder, f"contrapro.context.{lang}"))) for lang in LANGS}
    lines = len(text["en"])
    per_line = len(around["en"]) // lines if lines else 0
    wanted = {"text.de": (text["de"], lines), "context.en": (around["en"], per_line * lines)}
    wanted["context.de"] = (around["de"], per_line * lines)
    for name, (found, count) in wanted.items():
        if len(found) != count or not count:
            raise UserError(
                f"{_find(folder, f'contrapro.{name}')}, line {len(found)}: the file ends here, which does not go with "
                f"the {lines} lines of contrapro.text.en; the files must be aligned line by line"
            )
    starts = _read_groups(_find(folder, "groups.txt"), lines)
    kept = per_line if context is None else min(context, per_line)
    examples = []
    for number, (start, end) in enumerate(zip(starts, starts[1:], strict=False)):
        rows = range(per_line * (start + 1) - kept, per_line * (start + 1))
        before = [(around["en"][row].strip(), around["de"][row].strip()) for row in rows]
        groups = {"phenomenon": differing_word(text["de"][start], text["de"][start + 1])}
        before = [pair for pair in before if any(pair)]
        examples.append(_example(number, before, text["en"][start], text["de"][start:end], groups))
    return examples


def _example(
    number: int, before: list[tuple[str, str]], source: str, texts: list[str], groups: dict[str, str]
) -> Example:
    left, right = tuple(pair[0] for pair in before), tuple(pair[1] for pair in before)
    candidates = tuple((*right, text.strip()) for text in texts)
    return Example(number, (*left, source.strip()), candidates, 0, False, groups)


def _find(folder: Path, name: str) -> Path:
    """The file, compressed or not."""
    return next((path for end in (".xz", ".gz") if (path := folder / (name + end)).is_file()), folder / name)


def _read_groups(path: Path, lines: int) -> list[int]:
    """Lines on which groups begin, the end mark last; every group has at least two lines."""
    starts: list[int] = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip().isdecimal() or int(line) > lines or (starts and int(line) < starts[-1] + 2):
            raise UserError(
                f"{path}, line {number}: {line!r} is not the zero-based line, at most {lines}, on which the next group "
                "of at least two candidates begins"
            )
        starts.append(int(line))
    if len(starts) < 2 or starts[0] != 0:
        raise UserError(f"{path}, line 1: the first group must begin on line 0, and the last line must mark the end")
    if starts[-1] != lines:
        raise UserError(
            f"{path}, line {len(starts)}: the last entry is {starts[-1]}, not the {lines} lines of the text"
        )
    return starts


def differing_word(right: str, wrong: str) -> str:
    """The first word, in small letters, of ``right`` that is another in ``wrong``; ``"other"`` if there is none."""
    pairs = zip(re.findall(r"\w+", right.lower()), re.findall(r"\w+", wrong.lower()), strict=False)
    return next((first for first, second in pairs if first != second), "other")
