"""The pages of results, as Markdown: all runs in one table, and a page per paper with its figures next to ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.lab.report.paper import OwnColumn, Paper, Row, Table, paper_files, read_paper
from gtransformer.lab.report.results import Folder, Result, read_folders

ROW = "{row}"  # placeholder of the row's name in a result file's name and in paths to values
LOGS = "../../../exp_logs/"  # from a paper's page
RUNS = """\
# All runs

`gtransformer lab report` makes this table from the files in these folders.
Commands have today's form; the JSON files hold the commands that ran, if these \
were recorded.
[docs/results.md](../docs/results.md) and the [lab](../docs/lab/index.md) have the results. `docs/lab/papers/` shows \
them next to the papers' figures.
"""
RUNS_HEADER = ("folder", "what", "date", "commit", "machine", "seeds", "command")
READING = """\
`gtransformer lab report` makes this page from the files in `exp_logs/`.
It shows only rows and columns with a result of ours. **Do not compare our results with the paper's**: corpus, model \
size and budget differ. Compare our systems only with each other.
Several seeds have their mean, with the lowest and the highest seed in brackets. A single number is one seed."""
NOT_GIVEN, NOT_RUN = "not given", "not measured"


def make_pages(logs: Path, papers: Sequence[Path] = ()) -> dict[Path, str]:
    """Return the text of every page by path: exp_logs/README.md, and a page per paper with a result of ours.

    Args:
        logs: the folder of results; papers: files of their numbers (default: all).

    Raises UserError for anything that cannot be read.
    """
    if not logs.is_dir():
        raise UserError(f"{logs}: not a folder of results")
    folders = read_folders(logs)
    pages = {logs / "README.md": runs_page(folders)}
    for path in papers or paper_files():
        paper = read_paper(path)
        if text := paper_page(paper, folders, Logs(logs)):
            pages[logs.parent / "docs" / "lab" / "papers" / f"{paper.page}.md"] = text
    return pages


def runs_page(folders: Iterable[Folder]) -> str:
    """Return the table of all runs."""
    rows = [
        [f"[{folder.name}]({folder.name})", run.what, run.date, run.commit, run.machine, str(run.seeds), run.command]
        for folder in folders
        for run in folder.runs
    ]
    return f"{RUNS}\n{markdown(RUNS_HEADER, rows)}\n"


def paper_page(paper: Paper, folders: Sequence[Folder], logs: Logs) -> str:
    """Return a paper's page; empty if nothing of it was run."""
    results = [result for folder in folders for result in folder.results]
    parts = []
    for table in paper.tables:
        parts += table_section(table, [logs.cells(row, table.own) for row in table.rows], logs, table.own)
        found = [(row, result) for result in results for row in table.rows_of(result)]
        parts += scores_section(table, sorted(found, key=lambda pair: table.rows.index(pair[0])))
    for name in paper.figures or ():
        parts += figure_section(name, logs)
    if not parts:
        return ""
    return "\n\n".join([f"# {paper.title}", READING, paper.introduction, *parts]) + "\n"


def table_section(
    table: Table, own: Sequence[Mapping[str, str]], logs: Logs, columns: Sequence[OwnColumn]
) -> list[str]:
    """Return a table of the paper's numbers next to ours; empty if we have none.

    Args:
        own: our values of every row of the table, by column title.
    """
    shown = [(row, cells) for row, cells in zip(table.rows, own, strict=True) if cells]
    titles = [column.title for column in columns if any(column.title in cells for _, cells in shown)]
    if not shown:
        return []
    rows = [[*cells, *(found.get(title, NOT_RUN) for title in titles)] for cells, found in _paper_cells(table, shown)]
    files = dict.fromkeys(name for row, _ in shown for name in logs.files(row, columns))
    links = ", ".join(f"[{name}]({LOGS}{name})" for name in files)
    header = [*_paper_header(table, shown), *(f"{title}, ours" for title in titles)]
    parts = [
        f"## {table.name}: {table.title}",
        markdown(header, rows),
        f"{table.miniature['note'].strip()} Files: {links}.",
    ]
    return [*parts, *([table.note.strip()] if table.note else [])]


def scores_section(table: Table, found: Sequence[tuple[Row, Result]]) -> list[str]:
    """Return scores of our models of the rows' kinds, on any corpus, next to the paper's numbers."""
    if not found:
        return []
    header = [*_paper_header(table, found), "recipe, ours", "training corpus, ours", "test set, ours", "updates, ours"]
    header += ["s-BLEU, ours", "d-BLEU, ours", "file"]
    rows = [[*cells, *result.cells(LOGS)] for cells, result in _paper_cells(table, found)]
    parts = [f"## {table.name}: {table.title}", markdown(header, rows)]
    signatures = dict.fromkeys(f"`{signature}`" for _, result in found for _, signature in result.scores.values())
    return [
        *parts,
        f"Ours are scored against untouched text unless the cell states otherwise: {', '.join(signatures)}. *Changed* "
        "means options other than the recipe's; the file names them.",
    ]


def _paper_header(table: Table, shown: Sequence[tuple[Row, Any]]) -> list[str]:
    return ["row of the paper", *(f"{table.columns[number]}, paper" for number in _given(table, shown))]


def _paper_cells(table: Table, shown: Sequence[tuple[Row, Any]]) -> list[tuple[list[str], Any]]:
    """Return the paper's cells, and ours for the same row."""
    given = _given(table, shown)
    figures = [
        [NOT_GIVEN if row.paper[n] == "-" else row.paper[n].replace("*", r"\*") for n in given] for row, _ in shown
    ]
    return [([row.method, *cells], ours) for (row, ours), cells in zip(shown, figures, strict=True)]


def _given(table: Table, shown: Sequence[tuple[Row, Any]]) -> list[int]:
    """Return the indices of the paper's columns with a number in any shown row."""
    return [number for number in range(len(table.columns)) if any(row.paper[number] != "-" for row, _ in shown)]


def figure_section(name: str, logs: Logs) -> list[str]:
    """Return the picture of a figure and its file; empty if it was not run."""
    content, picture = logs.read(f"{name}.json"), f"{name}.png"
    if content is None or not (logs.folder / picture).is_file():
        return []
    title = content.get("description") or name
    seeds = max((len(line["runs"]) for panel in content["panels"] for line in panel["lines"]), default=1)
    count = f"{seeds} seeds" if seeds > 1 else "One seed"
    return [f"## {title}", f"![{title}]({LOGS}{picture})", f"{count}. File: [{name}.json]({LOGS}{name}.json)."]


class Logs:
    """Our numbers in result files.

    Attributes:
        folder: exp_logs/; file names are relative to it.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    @cache  # noqa: B019 (pages are made once, and read one file many times)
    def read(self, name: str) -> Any:
        """Return the content of a file; None if it is missing."""
        path = self.folder / name
        return read_json(path) if path.is_file() else None

    def files(self, row: Row, columns: Sequence[OwnColumn]) -> list[str]:
        """Return the names of the files with a row's numbers."""
        names = [column.file.replace(ROW, row.own) for column in columns if row.own]
        return [name for name in names if self.read(name) is not None]

    def cells(self, row: Row, columns: Sequence[OwnColumn]) -> dict[str, str]:
        """Return our numbers of a row by column title. Raises UserError for a value that is not a number."""
        found = {column.title: self._cell(column, row.own) for column in columns if row.own}
        return {title: cell for title, cell in found.items() if cell}

    def _cell(self, column: OwnColumn, row: str) -> str:
        """Return a number, or the mean over seeds with the lowest and the highest seed; empty if there is none."""
        file = column.file.replace(ROW, row)
        found = self.read(file)
        for step in column.value:
            found = _follow(found, step, row)
        seeds = []
        if isinstance(found, Mapping):  # an arena's accuracy over all seeds has no mean by name
            seeds = found.get("by_seed") or found.get("values") or []
            found = found.get("mean", found.get("accuracy"))
        figures = [one for one in (found, *seeds) if one is not None]
        if any(isinstance(one, bool) or not isinstance(one, int | float) for one in figures):
            raise UserError(f"{self.folder / file}: no number for '{column.title}' of {row}, but {figures!r:.60}")
        if found is None:
            return ""
        mean, *ends = (
            f"{one * column.scale:.{column.digits}f}" for one in (found, *(seeds and (min(seeds), max(seeds))))
        )
        return f"{mean} ({' to '.join(ends)})" if len(seeds) > 1 else mean


def _follow(content: Any, step: Any, row: str) -> Any:
    """Return the value at a step of a path, or None."""
    if isinstance(step, Mapping):
        wanted = {key: str(value).replace(ROW, row) for key, value in step.items()}
        entries = content if isinstance(content, list) else []
        fitting = (entry for entry in entries if all(str(entry.get(key)) == value for key, value in wanted.items()))
        return next(fitting, None)
    if isinstance(step, int):
        return content[step] if isinstance(content, list) and step < len(content) else None
    return content.get(step.replace(ROW, row)) if isinstance(content, dict) else None


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; ``|`` in a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
