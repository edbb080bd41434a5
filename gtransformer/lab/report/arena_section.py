"""Arenas on the results page and in the README: their pictures and tables, from arena.json alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtransformer.files import read_json
from gtransformer.lab.arena.budget import PER_UPDATE
from gtransformer.lab.arena.statistics import BOTH
from gtransformer.lab.arena.table import (
    distance_rows,
    distance_title,
    origin_lines,
    score_rows,
    terms_line,
)
from gtransformer.lab.report.results import damaged, script_command

FILE, PICTURE = "arena.json", "arena.png"
FIRST = "arena"  # the folder whose arena the README shows
# In the README, around what is written there.
BEGIN, END = "<!-- arena: made by gtransformer lab report -->", "<!-- /arena -->"
INTRODUCTION = """\
## The arena: every system on equal terms

Systems of [the arena](../docs/lab/arena.md), trained on the same data with the same budget. *Miniature*: they are
compared with each other and **must not be compared with any paper's**."""


def arena_sections(logs: Path) -> list[str]:
    """What the results page begins with: every arena in the folder of all logs; nothing where there is none.

    Raises UserError for a file that is no result of an arena.
    """
    paths = sorted(logs.glob(f"*/{FILE}"), key=lambda path: (path.parent.name != FIRST, path))
    return [INTRODUCTION, *(_shown(path) for path in paths)] if paths else []


def fill_readme(text: str, logs: Path) -> str:
    """Put picture and short table of its arena into the README between ``BEGIN`` and ``END``, if it has these lines."""
    path = logs / FIRST / FILE
    if BEGIN not in text or END not in text or not path.is_file():
        return text
    folder = f"{logs.name}/{FIRST}"
    with damaged(path):
        result = read_json(path)
        parts = [
            f"![accuracy over distance]({folder}/{PICTURE})",
            _table(distance_rows(result["systems"], errors=False)) if _has_distances(result) else "",
            f"All: {_terms(result)}.{_sizes(result)}",
            *_origins(result),
        ]
    filled = f"{BEGIN}\n" + "\n\n".join(parts) + f"\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: filled, text, count=1, flags=re.DOTALL)


def _shown(path: Path) -> str:
    """Picture, tables, terms and command of one arena."""
    with damaged(path):
        result, folder = read_json(path), path.parent.name
        parts = [f"### [{folder}/{FILE}]({folder}/{FILE}): corpus {result['corpus']['name']}"]
        if (path.parent / PICTURE).is_file():
            parts.append(f"![{folder}]({folder}/{PICTURE})")
        if _has_distances(result):
            parts += [
                "Scores, and contrastive accuracy in per cent (mean of the phenomena) by the number of sentences to "
                f"the nearest that discloses the answer{distance_title(BOTH)}:",
                _table(distance_rows(result["systems"])),
            ]
        parts += [_table(score_rows(result["systems"])), *_origins(result)]
        parts.append(
            f"All: {_terms(result)}. Behind ±: standard errors, of scores over seeds, of accuracy over items and seeds."
        )
        if isinstance(result.get("command"), str):
            parts.append(f"```bash\n{script_command(result['command'])}\n```")
    return "\n\n".join(parts)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; ``|`` in a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _has_distances(result: dict[str, Any]) -> bool:
    return all("accuracy" in system for system in result["systems"].values())


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    return markdown(head, [[f"`{name}`", *cells] for name, *cells in body])


def _terms(result: dict[str, Any]) -> str:
    return f"{terms_line(result)}; {len(result['seeds'])} seed(s)"


def _sizes(result: dict[str, Any]) -> str:
    """That updates are not of one size, where they are the budget and that is known."""
    sizes = {name: system[PER_UPDATE] for name, system in result["systems"].items() if PER_UPDATE in system}
    if not result.get("updates") or len(sizes) < len(result["systems"]):
        return ""
    order = sorted(sizes, key=sizes.get)
    least, most = order[0], order[-1]
    if f"{sizes[least]:,.0f}" == f"{sizes[most]:,.0f}":
        return ""
    return (
        f" Updates are not of one size: from {sizes[least]:,.0f} target tokens of current sentences (`{least}`) to "
        f"{sizes[most]:,.0f} (`{most}`)."
    )


def _origins(result: dict[str, Any]) -> list[str]:
    """Which rows are of another arena: a paragraph for each of these."""
    return [f"{line[0].upper()}{line[1:]}." for line in origin_lines(result)]
