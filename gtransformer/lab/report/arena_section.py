"""Arenas on the results page and in the README: their pictures and tables, from arena.json alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.lab.arena.budget import PER_UPDATE
from gtransformer.lab.arena.table import (
    distance_rows,
    distance_title,
    main_distance,
    origin_lines,
    score_rows,
    terms_line,
)
from gtransformer.lab.report.folders import script_command
from gtransformer.lab.report.paper_tables import markdown

FILE, PICTURE = "arena.json", "arena.png"
FIRST = "arena"  # the folder whose arena the README shows
# In the README, around what is written there.
BEGIN, END = "<!-- arena: made by scripts/report.sh -->", "<!-- /arena -->"
# What a result that is none, or half of one, makes of who reads it; StopIteration: there is no budget.
DAMAGES = (AttributeError, KeyError, IndexError, StopIteration, TypeError, ValueError)
INTRODUCTION = """\
## The arena: every system on equal terms

Systems of [the arena](../docs/arena.md), trained on the same data with the same budget. *Miniature*: they are
compared with each other and **must not be compared with any paper's**."""


def arena_sections(logs: Path) -> list[str]:
    """What the results page begins with: every arena in the folder of all logs; nothing where there is none.

    Raises UserError for a file that is no result of an arena.
    """
    paths = sorted(logs.glob(f"*/{FILE}"), key=lambda path: (path.parent.name != FIRST, path))
    return [INTRODUCTION, *(_shown(path) for path in paths)] if paths else []


def fill_readme(text: str, logs: Path) -> str:
    """The README with picture and short table of its arena between ``BEGIN`` and ``END``, if it has these lines."""
    path = logs / FIRST / FILE
    if BEGIN not in text or END not in text or not path.is_file():
        return text
    result = _read(path)
    shown = _table(path, result, lambda systems: distance_rows(systems, errors=False), "accuracy")
    folder = f"{logs.name}/{FIRST}"
    parts = [
        f"![accuracy over distance]({folder}/{PICTURE})",
        shown,
        f"All: {_terms(path, result)}.{_sizes(result)}",
        *_origins(path, result),
    ]
    filled = f"{BEGIN}\n" + "\n\n".join(parts) + f"\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: filled, text, count=1, flags=re.DOTALL)


def _shown(path: Path) -> str:
    """Picture, tables, terms and command of one arena."""
    result, folder = _read(path), path.parent.name
    parts = [f"### [{folder}/{FILE}]({folder}/{FILE}): corpus {result['corpus']['name']}"]
    if (path.parent / PICTURE).is_file():
        parts.append(f"![{folder}]({folder}/{PICTURE})")
    if reach := _table(path, result, distance_rows, "accuracy"):
        parts += [
            "Scores, and contrastive accuracy in per cent (mean of the phenomena) by the number of sentences to the "
            f"nearest that discloses the answer{distance_title(main_distance(result['systems']))}:",
            reach,
        ]
    parts.append(_table(path, result, score_rows))
    parts += _origins(path, result)
    parts.append(
        f"All: {_terms(path, result)}. Behind ±: standard errors, of scores over seeds, of accuracy over items and "
        "seeds."
    )
    if isinstance(result.get("command"), str):
        parts.append(f"```bash\n{script_command(result['command'])}\n```")
    return "\n\n".join(parts)


def _read(path: Path) -> dict[str, Any]:
    result = read_json(path)
    keys = {"systems", "seeds", "start", "corpus"}
    if not isinstance(result, dict) or not keys <= result.keys() or not result["systems"]:
        raise _wrong(path)
    return result


def _table(path: Path, result: dict[str, Any], rows: Any, needed: str | None = None) -> str:
    """A table of the systems; empty unless all have what is needed."""
    systems = result["systems"]
    try:
        if needed and not all(needed in system for system in systems.values()):
            return ""
        head, *body = rows(systems)
    except DAMAGES:
        raise _wrong(path) from None
    return markdown(head, [[f"`{name}`", *cells] for name, *cells in body])


def _terms(path: Path, result: dict[str, Any]) -> str:
    try:
        return f"{terms_line(result)}; {len(result['seeds'])} seed(s)"
    except DAMAGES:
        raise _wrong(path) from None


def _sizes(result: dict[str, Any]) -> str:
    """That updates are not of one size, where they are the budget and that is known."""
    sizes = {name: f"{system[PER_UPDATE]:,.0f}" for name, system in result["systems"].items() if PER_UPDATE in system}
    if not result.get("updates") or len(sizes) < len(result["systems"]) or len(set(sizes.values())) == 1:
        return ""
    least, *_, most = sorted(sizes, key=lambda name: result["systems"][name][PER_UPDATE])
    return (
        f" Updates are not of one size: from {sizes[least]} target tokens of current sentences (`{least}`) to "
        f"{sizes[most]} (`{most}`)."
    )


def _origins(path: Path, result: dict[str, Any]) -> list[str]:
    """Which rows are of another arena: a paragraph for each of these."""
    try:
        return [f"{line[0].upper()}{line[1:]}." for line in origin_lines(result)]
    except DAMAGES:
        raise _wrong(path) from None


def _wrong(path: Path) -> UserError:
    return UserError(f"{path}: no result of an arena, or a damaged one; write it anew with scripts/arena.sh")
