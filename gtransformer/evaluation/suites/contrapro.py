"""ContraPro (Müller, Rios, Voita and Sennrich 2018): does the model choose er, sie or es by the antecedent?

Two forms are read:

* ``contrapro.json``: the published suite, with pronouns and antecedent distance; the context is not in it and is taken
  from OpenSubtitles2018 by document and segment.
* text: ``contrapro.text.{en,de}``, ``contrapro.context.{en,de}`` (as many lines of context per line of text, each),
  ``contrapro.context.right.{en,de}`` (ours: in the same way what stands behind it; only where it is asked for) and
  ``groups.txt``, the line on which each group of candidates begins. The first candidate of a group is the right one.

An example counts if the right translation of the sentence is strictly more probable than each wrong one, the context
being given on both sides.
"""

from __future__ import annotations

import re
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.suites.example import Example
from gtransformer.evaluation.suites.opensubtitles import Subtitles, context_around, find_base
from gtransformer.files import read_lines

NAME = "ContraPro"
LANGS = ("en", "de")
FAR = 3  # sentences; antecedents further back are reported together
Pairs = list[tuple[str, str]]  # of sentences


def is_contrapro(data: object) -> bool:
    """Whether parsed JSON is the suite."""
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "src segment" in data[0]


def json_examples(
    data: list, path: str | Path, before: int, behind: int, documents: str | Path | None
) -> list[Example]:
    """The examples of a parsed ``contrapro.json``, with so many sentences before and behind each from ``documents``.

    Raises UserError, naming the entry, where a key is missing, and if there is context to add but no documents.
    """
    wanted = before + behind > 0
    for number, entry in enumerate(data):
        _check(entry, f"{path}: entry {number}", wanted)
    around = _contexts(data, path, before, behind, documents) if wanted else [([], [])] * len(data)
    examples = []
    for number, entry in enumerate(data):
        texts = [entry["ref segment"], *(error["contrastive"] for error in entry["errors"])]
        groups = {
            "phenomenon": f"{entry['src pronoun']}:{entry['ref pronoun']}".lower(),
            "distance": distance_name(entry["ante distance"]),
            "intrasegmental": {"True": "yes", "False": "no"}.get(str(entry["intrasegmental"]), "unknown"),
        }
        examples.append(_example(number, *around[number], entry["src segment"], texts, groups))
    return examples


def _contexts(
    data: list, path: str | Path, before: int, behind: int, folder: str | Path | None
) -> list[tuple[Pairs, Pairs]]:
    """The sentences around every entry; documents are read one after the other, each once or twice."""
    if folder is None:
        raise UserError(
            f"{path}: the context is not in this file; give the documents of OpenSubtitles2018 with --documents, "
            "or score the sentences alone (--context 0, no --context-right)"
        )
    documents = Subtitles(folder, LANGS)
    places = [(str(entry["document id"]), int(entry["segment id"])) for entry in data]
    order = sorted(range(len(data)), key=lambda number: places[number])
    base = find_base(documents, [(*places[number], data[number]["src segment"]) for number in order])
    around: list[tuple[Pairs, Pairs]] = [([], []) for _ in data]
    for number in order:
        identity, segment = places[number]
        around[number] = context_around(documents, identity, segment - base, before, behind)
    return around


def _check(entry: object, where: str, context: bool) -> None:
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


def text_examples(folder: str | Path, before: int | None, behind: int) -> list[Example]:
    """The examples of a directory in text form; at most so many sentences before (None: all there are) and behind each.

    The phenomenon is the German pronoun, the first word in which the right candidate differs from a wrong one;
    distances are not known. Raises UserError, naming file and line, where files are not aligned.
    """
    folder = Path(folder)
    text = {lang: list(read_lines(_find(folder, f"contrapro.text.{lang}"))) for lang in LANGS}
    lines = len(text["en"])
    _check_aligned(folder, "text.de", text["de"], lines, lines)
    starts = _read_groups(_find(folder, "groups.txt"), lines)
    earlier = _read_context(folder, "context", lines)
    later = _read_context(folder, "context.right", lines) if behind else [[]] * lines
    examples = []
    for number, (start, end) in enumerate(zip(starts, starts[1:], strict=False)):
        groups = {"phenomenon": differing_word(text["de"][start], text["de"][start + 1])}
        left, right = ([pair for pair in side[start] if any(pair)] for side in (earlier, later))
        left = left if before is None else left[max(0, len(left) - before) :]
        examples.append(_example(number, left, right[:behind], text["en"][start], text["de"][start:end], groups))
    return examples


def _read_context(folder: Path, name: str, lines: int) -> list[Pairs]:
    """For each line of the text the sentences on one side of it, in reading order; empty ones are among them."""
    sides = [[line.strip() for line in read_lines(_find(folder, f"contrapro.{name}.{lang}"))] for lang in LANGS]
    each = len(sides[0]) // lines if lines else 0
    for lang, side in zip(LANGS, sides, strict=True):
        _check_aligned(folder, f"{name}.{lang}", side, each * lines, lines)
    pairs = list(zip(*sides, strict=True))
    return [pairs[each * line : each * (line + 1)] for line in range(lines)]


def _check_aligned(folder: Path, name: str, found: list[str], count: int, lines: int) -> None:
    if len(found) != count or not count:
        raise UserError(
            f"{_find(folder, f'contrapro.{name}')}, line {len(found)}: the file ends here, which does not go with the "
            f"{lines} lines of contrapro.text.en; the files must be aligned line by line"
        )


def _example(
    number: int, before: Pairs, behind: Pairs, source: str, texts: list[str], groups: dict[str, str]
) -> Example:
    """An example whose sentence stands between pairs of others."""
    (left, left_target), (right, right_target) = (
        [[pair[side] for pair in pairs] for side in (0, 1)] for pairs in (before, behind)
    )
    candidates = tuple((*left_target, text.strip(), *right_target) for text in texts)
    return Example(number, (*left, source.strip(), *right), candidates, 0, False, groups, len(behind))


def _find(folder: Path, name: str) -> Path:
    """The file, compressed or not."""
    return next((path for end in (".xz", ".gz") if (path := folder / (name + end)).is_file()), folder / name)


def _read_groups(path: Path, lines: int) -> list[int]:
    """Lines on which groups begin, the end mark last; every group has at least two lines."""
    starts: list[int] = []
    for number, line in enumerate(read_lines(path), 1):
        digits = line.strip()  # Python reads no numbers of thousands of them
        if not digits.isdecimal() or len(digits) > 18 or int(line) > lines or (starts and int(line) < starts[-1] + 2):
            raise UserError(
                f"{path}, line {number}: {line[:20]!r} is not the zero-based line, at most {lines}, on which the next "
                "group of at least two candidates begins"
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
