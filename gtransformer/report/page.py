"""The results page: the paper's tables with ours beside them, studies, and a list of all that was run, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.experiments.recipe import load_recipe
from gtransformer.report.folders import TOKENS, UNITS, Folder, read_folders
from gtransformer.report.keys import ABOUT, need
from gtransformer.report.paper import PAPER, Column, Paper, Row, Table, commands, read_paper
from gtransformer.report.results import Result
from gtransformer.settings import read_entries

SPLITS = ("train", "valid", "test")

INTRODUCTION = """\
# What was run

Made by `bash scripts/report.sh` from the result files in the folders here; change those, not this page. The command,
the commit and the versions of every result are in its JSON file, paths shortened to the checkout's; here commands stand
as the scripts that run them.

Machine of all runs, unless a folder says otherwise: {machine}.

## The paper's tables

Figures under *paper* are those printed by Bao et al. (2021, "G-Transformer for Document-level Machine Translation"),
typed into `gtransformer/report/papers/g_transformer.yaml`; "\\*": significant there at p < 0.01 against the Transformer
baselines. *Ours* are models of the row's recipe, unchanged, trained on the same corpus, whole, and scored on its test
set as the authors' release does it (`--reference release`; `docs/evaluation.md`): truecased text, whole instances
detokenised and then cut into sentences, sacrebleu's 13a; d-BLEU is that over instances. What has no such score is
marked: "raw text", untouched text as reference; "tokenised text", the preprocessed words without a tokeniser, which
older result files call `paper` and which is not how the paper measured. A cell is empty where nothing was run. `bash
scripts/download.sh CORPUS` fetches the corpora; CORPUS, here and below, is {corpora}.

Scores of our runs on **other data**, or with options **changed**, stand in tables of their own, against untouched text
unless marked. They compare our models with each other, on one corpus and budget; they **must not be compared with the
paper's figures**."""

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


def make_page(logs: Path, paper: Path = PAPER) -> str:
    """The page of a folder of results, beside the figures of a paper.

    Raises UserError for anything in them that cannot be read.
    """
    if not (logs / ABOUT).is_file():
        raise UserError(f"{logs}: no folder of results; it must hold {ABOUT}, as exp_logs/ of the checkout does")
    machine = need(read_entries(logs / ABOUT), logs / ABOUT, "machine", kind=str, optional=True) or "not noted"
    return page(read_paper(paper), read_folders(logs), machine)


def page(paper: Paper, folders: Sequence[Folder], machine: str) -> str:
    """The whole page.

    Args:
        machine: what the runs were made on whose folder does not say it.
    """
    names = " or ".join(", ".join(paper.corpora.values()).rsplit(", ", 1))
    ours, other = sort_results(paper, [result for folder in folders for result in folder.results])
    parts = [INTRODUCTION.format(machine=machine, corpora=names), statistics(paper, folders)]
    parts += [table_section(table, ours, other[table.name]) for table in paper.tables]
    if other[None]:
        parts += ["### Recipes that belong to no table", other_section(other[None])]
    return "\n\n".join([*parts, studies(folders), runs(folders)]) + "\n"


def sort_results(paper: Paper, results: Sequence[Result]) -> tuple[list[Result], dict[str | None, Placed]]:
    """Results that stand in the tables themselves, and the others by the table whose row names their recipe first.

    In the tables stand models of unchanged recipes that were trained on a whole corpus of the paper, on the test set of
    that corpus; under None those of recipes that no row names.
    """
    ours: list[Result] = []
    other: dict[str | None, Placed] = {None: [], **{table.name: [] for table in paper.tables}}
    rows = [(table.name, row) for table in paper.tables for row in table.rows]
    for result in results:
        of_paper = result.corpus in paper.corpora.values() and result.set == f"{result.corpus}_test"
        of_paper = of_paper and result.every == 1 and not result.changes
        if of_paper and any(row.recipe == result.recipe for _, row in rows):
            ours.append(result)
            continue
        places = [(name, row) for name, row in rows if result.recipe in (row.recipe, *row.also)]
        name, row = places[0] if places else (None, None)
        other[name].append((row, result))
    order = {id(row): number for number, (_, row) in enumerate(rows)}
    for placed in other.values():
        placed.sort(key=lambda pair: order.get(id(pair[0]), 0))
    return ours, other


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; ``|`` in a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def statistics(paper: Paper, folders: Sequence[Folder]) -> str:
    """Table 1: sizes of the corpora, the paper's and those of prepared corpora here."""
    ours = {corpus: (note, counts) for folder in folders for corpus, note, counts in folder.statistics}
    rows = []
    for name, figures in paper.statistics.items():
        rows.append([name, "paper", *figures])
        note, counts = ours.pop(paper.corpora[name], ("", {}))
        rows.append([name, f"ours{', ' + note if note else ''}", *_counts(counts)])
    rows += [
        [f"{name} (not one of the paper's)", f"ours{', ' + note if note else ''}", *_counts(counts)]
        for name, (note, counts) in ours.items()
    ]
    lead = "Train/dev/test; ours after cleaning, tokens of the source side."
    return f"### Table 1: the corpora\n\n{lead}\n\n{markdown(['corpus', '', *paper.columns], rows)}"


def _counts(splits: dict[str, Any]) -> list[str]:
    """The columns of Table 1 from the counts of a corpus; empty where there are none."""
    if not splits:
        return [""] * 5
    return [
        "/".join(f"{splits[split][unit]:{form}}" if split in splits else "-" for split in SPLITS)
        for unit, form in zip((*UNITS, TOKENS), (",", ",", ",", ".1f", ".0f"), strict=True)
    ]


def table_section(table: Table, results: Sequence[Result], other: Placed) -> str:
    """One table: the paper's figures and ours side by side, the commands; then results of its rows on other data."""
    header = ["", "recipe"]
    for column in table.columns:
        header += [f"{column.title}, paper", "ours"] if column.metric else [f"{column.title}, paper"]
    rows: list[list[str]] = []
    used: list[tuple[Result, Column]] = []
    for row in table.rows:
        cells = [row.method, f"`{row.recipe}`" if row.recipe else ""]
        for column, figure in zip(table.columns, row.paper, strict=True):
            cells.append("" if figure == "-" else figure.replace("*", r"\*"))
            if column.metric:
                found = [result for result in results if fills(result, row, column)]
                used += [(result, column) for result in found]
                cells.append("; ".join(own_cell(result, column) for result in found))
        rows.append(cells)
    parts = [f"### {table.name}: {table.title}", markdown(header, rows)]
    sources = dict.fromkeys(f"[{r.source}]({r.source})" + (f" ({r.machine})" if r.machine else "") for r, _ in used)
    if sources:
        parts.append(f"Ours: {', '.join(sources)}.")
        parts.append(signatures(own_score(result, column)[1] for result, column in used))
        marks = {mark for result, column in used for mark in own_score(result, column)[2]}
        parts += [f"*{mark}*: {note}." for mark, note in NOTES.items() if mark in marks]
    lines = table_commands(table)
    if lines:
        parts.append("```bash\n" + "\n".join(lines) + "\n```")
    if table.note:
        parts.append(table.note)
    if other:
        parts += ["Ours on other data or changed, *not comparable with the figures above*:", other_section(other)]
    return "\n\n".join(parts)


def fills(result: Result, row: Row, column: Column) -> bool:
    """Whether a result on the paper's corpora belongs into a cell."""
    same = result.recipe == row.recipe and result.corpus == column.corpus
    return same and (result.aligned or column.metric != "s_bleu")


def own_score(result: Result, column: Column) -> tuple[float, str, list[str]]:
    """Our score, its signature, and marks (``NOTES``) where it is not taken as the paper took it."""
    reference, kind = result.reference("release"), column.metric
    if reference != "release":
        return *result.scores[reference][kind], [MARKS[reference]]
    if kind != "d_bleu":
        return *result.scores[reference][kind], []
    by_instance = "d_bleu_instance" in result.scores[reference]
    if not by_instance or load_recipe(result.recipe).max_sentences == 1:
        return *result.scores[reference][kind], ["whole documents"]
    return *result.scores[reference]["d_bleu_instance"], []


def own_cell(result: Result, column: Column) -> str:
    """Our score, its marks, and the budget if there was one."""
    score, _, marks = own_score(result, column)
    notes = [*marks, *([f"{result.minutes:g} min of training"] if result.minutes else [])]
    return f"{score:.2f}" + (f" ({', '.join(notes)})" if notes else "")


def signatures(found: Iterable[str]) -> str:
    """The signatures of scores, each once."""
    return f"BLEU: {', '.join(f'`{signature}`' for signature in sorted(set(found)))}."


def table_commands(table: Table) -> list[str]:
    """The commands of all recipes of a table, in an order in which they can be run."""
    recipes = dict.fromkeys(row.recipe for row in table.rows if row.recipe)
    lines = []
    for line in (line for recipe in recipes for line in commands(recipe)):
        *start, name, corpus, stage = line.split()
        # What another row needs of a recipe that has a row itself is done with all of it.
        lines.append(" ".join([*start, name, corpus, "all" if name in recipes else stage]))
    return list(dict.fromkeys(lines))


def other_section(placed: Placed) -> str:
    """A table of results on other data, the signatures of the scores, the learning curves."""
    marks: dict[tuple[str, ...], str] = {}
    for _, result in placed:
        if result.changes:
            marks.setdefault(tuple(result.changes), f"[{len(marks) + 1}]")
    rows = [[row.method if row else "", *_cells(result, marks)] for row, result in placed]
    changes = [f"{mark} {', '.join(f'`{change}`' for change in changed)}" for changed, mark in marks.items()]
    found = signatures(score[1] for _, result in placed for score in result.scores[result.reference("raw")].values())
    lines = f"""{found} Perplexity counts the language symbol
that ends every instance, too: models of single sentences and of documents are not measured on quite the same tokens."""
    pictures = dict.fromkeys(result.picture for _, result in placed if result.picture)
    changed = [f"Changed: {'; '.join(changes)}."] if changes else []
    return "\n\n".join([markdown(OTHER_HEADER, rows), *changed, lines, *(f"![{name}]({name})" for name in pictures)])


def _cells(result: Result, marks: Mapping[tuple[str, ...], str]) -> list[str]:
    trained = result.corpus if result.every == 1 else f"{result.corpus}, every {_ordinal(result.every)} document"
    mark = f" {marks[tuple(result.changes)]}" if result.changes else ""
    recipe = f"`{result.recipe}`{mark}" + (f" ({result.note})" if result.note else "")
    reference = result.reference("raw")
    text = "" if reference == "raw" else f" ({MARKS[reference]})"
    s_bleu, d_bleu = (f"{result.scores[reference][kind][0]:.2f}{text}" for kind in ("s_bleu", "d_bleu"))
    return [
        recipe,
        trained,
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


def studies(folders: Sequence[Folder]) -> str:
    """The figures that were drawn, each with its picture and command."""
    parts = ["## The paper's figures"]
    for folder in folders:
        for study in folder.studies:
            picture = f"\n\n![{study.title}]({study.picture})" if study.picture else ""
            parts.append(
                f"### [{study.source}]({study.source}): {study.title}{picture}\n\n```bash\n{study.command}\n```"
            )
    return "\n\n".join(parts) if len(parts) > 1 else f"{parts[0]}\n\nNone was run yet."


def runs(folders: Sequence[Folder]) -> str:
    """All folders: what each is, its machine, its pictures; and the command of every result file."""
    rows = []
    for folder in folders:
        pictures = ", ".join(f"[{name}]({folder.name}/{name})" for name in folder.pictures)
        rows.append([f"[`{folder.name}/`]({folder.name})", folder.about, folder.machine or "as above", pictures])
    lines = [
        [f"[{folder.name}/{name}]({folder.name}/{name})", f"`{command}`", commit[:7]]
        for folder in folders
        for name, command, commit in folder.commands
    ]
    parts = ["## All folders", markdown(("folder", "what", "machine", "pictures"), rows)]
    if lines:
        parts += ["Commands:", markdown(("result file", "command", "commit"), lines)]
    return "\n\n".join(parts)
