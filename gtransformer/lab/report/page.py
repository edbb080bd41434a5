"""The results page: the arena, papers' tables with ours beside them, studies, and all that was run, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import ALIGNED
from gtransformer.evaluation.provenance import short_commit
from gtransformer.files import read_json
from gtransformer.lab.report.arena_section import arena_sections, markdown
from gtransformer.lab.report.paper import (
    Column,
    MiniatureColumn,
    Paper,
    Row,
    Table,
    commands,
    known_recipe,
    paper_files,
    read_paper,
)
from gtransformer.lab.report.results import ABOUT, KINDS, TOKENS, UNITS, Folder, Result, read_folders
from gtransformer.settings import read_entries

SPLITS = ("train", "valid", "test")
ROW = "{row}"  # in a miniature's files and on the way to a figure: the row's name in that file
INTRODUCTION = """\
# What was run

Made by `gtransformer lab report` from the result files in the folders here; change those, not this page. The command,
the commit and the versions of every result are in its JSON file, paths shortened to the checkout's; here commands stand
as the scripts that run them.

Machine of all runs, unless a folder says otherwise: {machine}.

Tables of papers: figures under *paper* are those printed there, typed into the files of
`gtransformer/lab/report/papers/`. *Ours* are models of the row's recipe, changed in nothing but what the row names,
trained on the same corpus, whole, and scored on its test set. A cell is empty where nothing was run.

Scores of our runs on **other data**, or with options **changed**, stand in tables of their own, against untouched text
unless marked. They compare our models with each other, on one corpus and budget; they **must not be compared with the
paper's figures**, nor must those under *miniature*, which are of another corpus, size or machine."""
NOTES = {
    "raw text": "against the untouched text, detokenised and detruecased, not as the paper measured",
    "tokenised text": "against tokenised, truecased text without a tokeniser, not as the paper measured",
    "whole documents": "a model of single sentences, or one of instances that overlap, has d-BLEU over documents only",
}
MARKS = {"raw": "raw text", "tokenised": "tokenised text", "release": "as the release"}
OTHER_HEADER = (
    "row of the paper's table", "recipe", "trained on", "machine", "minutes", "updates", "validation perplexity",
    "translated", "s-BLEU", "d-BLEU", "result file",
)  # fmt: skip
Placed = list[tuple[Row | None, Result]]


def make_page(logs: Path, papers: Sequence[Path] = ()) -> str:
    """Return the page of a folder of results, beside the figures of some papers (all that there are).

    Raises UserError for anything in them that cannot be read.
    """
    if not (logs / ABOUT).is_file():
        raise UserError(f"{logs}: no folder of results; it must hold {ABOUT}, as exp_logs/ of the checkout does")
    machine, folders = read_entries(logs / ABOUT).get("machine") or "not noted", read_folders(logs)
    papers = [read_paper(path) for path in papers or paper_files()]
    ours, other = sort_results(papers, [result for folder in folders for result in folder.results])
    parts, miniatures = [INTRODUCTION.format(machine=machine), *arena_sections(logs)], Logs(logs)
    for paper in papers:
        parts += [f"## Tables of {paper.title}", paper.introduction, *statistics(paper, folders)]
        for table in paper.tables:
            parts.append(table_section(paper, table, ours[paper.name], other[paper.name, table.name], miniatures))
    if other[None]:
        parts += ["## Recipes that belong to no table", other_section(other[None])]
    return "\n\n".join([*parts, *studies(folders), *runs(folders)]) + "\n"


def studies(folders: Sequence[Folder]) -> list[str]:
    """Return the figures that were drawn, each with its picture and command."""
    drawn = [
        f"### [{source}]({source}): {title}" + (f"\n\n![{title}]({picture})" if picture else "")
        + f"\n\n```bash\n{command}\n```"
        for folder in folders
        for source, title, picture, command in folder.studies
    ]  # fmt: skip
    return ["## Figures of Bao et al. (2021)", *(drawn or ["None was run yet."])]


def runs(folders: Sequence[Folder]) -> list[str]:
    """Return all folders: what each is, its machine, its pictures; and the command of every result file."""
    rows, lines = [], []
    for folder in folders:
        name, pictures = folder.name, ", ".join(f"[{one}]({folder.name}/{one})" for one in folder.pictures)
        rows.append([f"[`{name}/`]({name})", folder.about.about, folder.about.machine or "as above", pictures])
        lines += [
            [f"[{name}/{file}]({name}/{file})", f"`{command}`", short_commit(commit)]
            for file, command, commit in folder.commands
        ]
    parts = ["## All folders", markdown(("folder", "what", "machine", "pictures"), rows)]
    return [*parts, *(["Commands:", markdown(("result file", "command", "commit"), lines)] if lines else [])]


def sort_results(
    papers: Sequence[Paper], results: Sequence[Result]
) -> tuple[dict[str, list[Result]], dict[tuple[str, str] | None, Placed]]:
    """Return results that stand in the tables of each paper, and the others by the table that names their recipe first.

    In the tables stand models of a row's recipe that were trained on a whole corpus of the paper, on the test set of
    that corpus; under None those of recipes that no row names.
    """
    rows = [((paper.name, table.name), row) for paper in papers for table in paper.tables for row in table.rows]
    ours: dict[str, list[Result]] = {paper.name: [] for paper in papers}
    other: dict[tuple[str, str] | None, Placed] = {
        None: [],
        **{(paper.name, table.name): [] for paper in papers for table in paper.tables},
    }
    for result in results:
        in_tables = [paper for paper in papers if is_of(paper, result)]
        for paper in in_tables:
            ours[paper.name].append(result)
        if not in_tables:
            places = ((place, row) for place, row in rows if result.recipe in (row.recipe, *row.also))
            place, row = next(places, (None, None))
            other[place].append((row, result))
    order = {id(row): number for number, (_, row) in enumerate(rows)}
    for placed in other.values():
        placed.sort(key=lambda pair: order.get(id(pair[0]), 0))
    return ours, other


def is_of(paper: Paper, result: Result) -> bool:
    """Whether a result stands in the tables of a paper."""
    of_corpus = result.corpus in paper.corpora.values() and result.set == f"{result.corpus}_test" and result.every == 1
    return of_corpus and any(is_row(result, row, paper) for table in paper.tables for row in table.rows)


def is_row(result: Result, row: Row, paper: Paper) -> bool:
    """Whether a result is of a row's recipe, with its changes, those of the corpus, and no others."""
    of_corpus = (paper.changes.get(name, ()) for name, ours in paper.corpora.items() if ours == result.corpus)
    wanted = [*row.changes, *next(of_corpus, ())]
    return (result.recipe, sorted(result.changes)) == (row.recipe, sorted(wanted))


def statistics(paper: Paper, folders: Sequence[Folder]) -> list[str]:
    """Return Table 1, if it is about corpora: their sizes in the paper, and those of prepared corpora here."""
    if not paper.statistics["rows"]:
        return []
    ours = {corpus: (note, counts) for folder in folders for corpus, note, counts in folder.statistics}
    rows = []
    for name, figures in paper.statistics["rows"].items():
        rows.append([name, "paper", *figures])
        rows.append([name, *_counts(*ours.pop(paper.corpora[name], ("", {})))])
    rows += [[f"{name} (not one of the paper's)", *_counts(*counted)] for name, counted in ours.items()]
    lead = "Train/dev/test; ours after cleaning, tokens of the source side."
    return ["### Table 1: the corpora", lead, markdown(["corpus", "", *paper.statistics["columns"]], rows)]


def _counts(note: str, splits: dict[str, Any]) -> list[str]:
    """What they are, and the columns of Table 1 from the counts of a corpus; empty where there are none."""
    forms = zip((*UNITS, TOKENS), (",.0f", ",.0f", ",.0f", ".1f", ".0f"), strict=True)
    cells = [
        "/".join(f"{splits[split][unit]:{form}}" if split in splits else "-" for split in SPLITS) if splits else ""
        for unit, form in forms
    ]
    return [f"ours{', ' + note if note else ''}", *cells]


def table_section(paper: Paper, table: Table, results: Sequence[Result], other: Placed, logs: Logs) -> str:
    """Return one table: the paper's figures and ours side by side, the commands; then its rows on other data."""
    header, rows, used = ["", "recipe"], [], []
    for column in table.columns:
        header += [f"{column.title}, paper", *(["ours"] if column.metric else [])]
    header += [f"{column.title}, *miniature*" for column in table.columns_of_miniature()]
    for row in table.rows:
        cells = [row.method, " ".join(f"`{part}`" for part in (row.recipe, *row.changes) if part)]
        for column, figure in zip(table.columns, row.paper, strict=True):
            cells.append("" if figure == "-" else figure.replace("*", r"\*"))
            if column.metric:
                found = [result for result in results if fills(result, row, column, paper)]
                used += [(result, column) for result in found]
                cells.append("; ".join(own_cell(result, column, paper.reference) for result in found))
        rows.append([*cells, *(logs.cell(column, row.miniature) for column in table.columns_of_miniature())])
    parts = [f"### {table.name}: {table.title}", markdown(header, rows)]
    sources = dict.fromkeys(f"[{r.source}]({r.source})" + (f" ({r.machine})" if r.machine else "") for r, _ in used)
    if sources:
        scores = [(column.metric, *own_score(result, column, paper.reference)) for result, column in used]
        marks = {mark for *_, marks in scores for mark in marks}
        parts += [f"Ours: {', '.join(sources)}.", signatures((metric, signature) for metric, _, signature, _ in scores)]
        parts += [f"*{mark}*: {note}." for mark, note in NOTES.items() if mark in marks]
    if table.miniature:
        names = (column.file.replace(ROW, row.miniature) for row in table.rows if row.miniature
                 for column in table.columns_of_miniature())  # fmt: skip
        links = [f"[{name}]({name})" if logs.read(name) is not None else f"`{name}` (not run yet)" for name in names]
        files = f" Files: {', '.join(dict.fromkeys(links))}." if links else ""
        lead = "*miniature*, **not comparable with the paper's figures**: "
        parts.append(f"{lead}{table.miniature['note']}{files}")
    if lines := table_commands(table):
        parts.append("```bash\n" + "\n".join(lines) + "\n```")
    parts += [table.note] if table.note else []
    if other:
        parts += ["Ours on other data or changed, *not comparable with the figures above*:", other_section(other)]
    return "\n\n".join(parts)


class Logs:
    """Figures of our own miniatures beside a paper's, from result files."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cache  # noqa: B019 (a page is made once, and asks for one file again and again)
    def read(self, name: str) -> Any:
        """Return what a file holds; None if it is not there."""
        path = self.folder / name
        return read_json(path) if path.is_file() else None

    def cell(self, column: MiniatureColumn, row: str | None) -> str:
        """Return a figure, with its standard error; empty where there is none. UserError for what is no number."""
        if row is None:
            return ""
        file, shown = column.file.replace(ROW, row), []
        for way in [column.value, *([[*column.value[:-1], column.error]] if column.error else [])]:
            found = self.read(file)
            for step in way:
                found = _follow(found, step, row)
            if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
                raise UserError(f"{self.folder / file}: no number for '{column.title}' of {row}, but {found!r:.60}")
            shown += [] if found is None else [f"{found * (column.scale or 1):.{column.digits}f}"]
            if not shown:
                return ""
        return " ± ".join(shown)


def _follow(content: Any, step: Any, row: str) -> Any:
    """What a step leads to; None if there is nothing."""
    if isinstance(step, Mapping):
        wanted = {key: str(value).replace(ROW, row) for key, value in step.items()}
        entries = content if isinstance(content, list) else []
        fitting = (entry for entry in entries if all(str(entry.get(key)) == value for key, value in wanted.items()))
        return next(fitting, None)
    if isinstance(step, int):
        return content[step] if isinstance(content, list) and step < len(content) else None
    return content.get(step.replace(ROW, row)) if isinstance(content, dict) else None


def fills(result: Result, row: Row, column: Column, paper: Paper) -> bool:
    """Whether a result on the paper's corpora belongs into a cell."""
    same = is_row(result, row, paper) and result.corpus == column.corpus
    aligned = result.aligned or column.metric not in ALIGNED
    return same and aligned and column.metric in result.scores[result.reference(paper.reference)]


def own_score(result: Result, column: Column, wanted: str = "release") -> tuple[float, str, list[str]]:
    """Return our score, its signature, and marks (``NOTES``) where it is not taken as the paper took it.

    ``wanted``: the reference that the paper's figures were taken against.
    """
    reference, kind = result.reference(wanted), column.metric
    scores, marks = result.scores[reference], [] if reference == wanted else [MARKS[reference]]
    if reference == wanted == "release" and kind == "d_bleu":
        if "d_bleu_instance" in scores and known_recipe(result.recipe).max_sentences != 1:
            kind = "d_bleu_instance"
        else:
            marks = ["whole documents"]
    return *scores[kind], marks


def own_cell(result: Result, column: Column, wanted: str) -> str:
    """Return our score, its marks, and the budget if there was one."""
    score, _, marks = own_score(result, column, wanted)
    notes = [*marks, *([f"{result.minutes:g} min of training"] if result.minutes else [])]
    return f"{score:.2f}" + (f" ({', '.join(notes)})" if notes else "")


def signatures(found: Iterable[tuple[str, str]]) -> str:
    """Return the signatures of scores, each once, from (kind, signature)."""
    by_metric: dict[str, set[str]] = {}
    for kind, signature in found:
        by_metric.setdefault("TER" if kind == "ter" else "BLEU", set()).add(f"`{signature}`")
    return " ".join(f"{metric}: {', '.join(sorted(each))}." for metric, each in sorted(by_metric.items()))


def table_commands(table: Table) -> list[str]:
    """Return the commands of all recipes of a table, in an order in which they can be run."""
    recipes, lines = dict.fromkeys(row.recipe for row in table.rows if row.recipe), []
    for line in (line for recipe in recipes for line in commands(recipe)):
        *start, name, corpus, stage = line.split()
        # What another row needs of a recipe that has a row itself is done with all of it.
        lines.append(" ".join([*start, name, corpus, "all" if name in recipes else stage]))
    return list(dict.fromkeys(lines))


def other_section(placed: Placed) -> str:
    """Return a table of results on other data, the signatures of the scores, the learning curves."""
    marks: dict[tuple[str, ...], str] = {}
    for _, result in placed:
        if result.changes:
            marks.setdefault(tuple(result.changes), f"[{len(marks) + 1}]")
    rows = [[row.method if row else "", *_cells(result, marks)] for row, result in placed]
    changes = [f"{mark} {', '.join(f'`{change}`' for change in changed)}" for changed, mark in marks.items()]
    scores = [result.scores[result.reference("raw")] for _, result in placed]
    found = signatures((kind, kinds[kind][1]) for kinds in scores for kind in KINDS)
    lines = f"""{found} Perplexity counts the language symbol
that ends every instance, too: models of single sentences and of documents are not measured on quite the same tokens."""
    pictures = dict.fromkeys(result.picture for _, result in placed if result.picture)
    changed = [f"Changed: {'; '.join(changes)}."] if changes else []
    return "\n\n".join([markdown(OTHER_HEADER, rows), *changed, lines, *(f"![{name}]({name})" for name in pictures)])


def _cells(result: Result, marks: Mapping[tuple[str, ...], str]) -> list[str]:
    mark = f" {marks[tuple(result.changes)]}" if result.changes else ""
    reference = result.reference("raw")
    text = "" if reference == "raw" else f" ({MARKS[reference]})"
    s_bleu, d_bleu = (f"{result.scores[reference][kind][0]:.2f}{text}" for kind in KINDS)
    return [
        f"`{result.recipe}`{mark}" + (f" ({result.note})" if result.note else ""),
        result.corpus + ("" if result.every == 1 else f", every {_ordinal(result.every)} document"),
        result.machine or "as above",
        "" if result.minutes is None else f"{result.minutes:g}",
        "" if result.updates is None else str(result.updates),
        "" if result.perplexity is None else f"{result.perplexity:.2f}",
        result.set,
        s_bleu if result.aligned else "(not aligned)",
        d_bleu,
        f"[{result.source}]({result.source})",
    ]


def _ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"
