"""A paper's tables with ours beside them: where each result stands, and the tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gtransformer.evaluation.metrics import ALIGNED
from gtransformer.lab.report.folders import TOKENS, UNITS, Folder
from gtransformer.lab.report.miniature import Logs
from gtransformer.lab.report.paper import Column, Paper, Row, Table, commands, known_recipe
from gtransformer.lab.report.results import KINDS, Result

SPLITS = ("train", "valid", "test")
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


def sort_results(
    papers: Sequence[Paper], results: Sequence[Result]
) -> tuple[dict[str, list[Result]], dict[tuple[str, str] | None, Placed]]:
    """Results that stand in the tables of each paper, and the others by the table whose row names their recipe first.

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
        if in_tables:
            continue
        places = [(place, row) for place, row in rows if result.recipe in (row.recipe, *row.also)]
        place, row = places[0] if places else (None, None)
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
    wanted = [*row.changes, *paper.changes.get(result.corpus, ())]
    return (result.recipe, sorted(result.changes)) == (row.recipe, sorted(wanted))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; ``|`` in a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def statistics(paper: Paper, folders: Sequence[Folder]) -> list[str]:
    """Table 1, if it is about corpora: their sizes in the paper, and those of prepared corpora here."""
    if not paper.statistics:
        return []
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
    return ["### Table 1: the corpora", lead, markdown(["corpus", "", *paper.columns], rows)]


def _counts(splits: dict[str, Any]) -> list[str]:
    """The columns of Table 1 from the counts of a corpus; empty where there are none."""
    if not splits:
        return [""] * 5
    return [
        "/".join(f"{splits[split][unit]:{form}}" if split in splits else "-" for split in SPLITS)
        for unit, form in zip((*UNITS, TOKENS), (",", ",", ",", ".1f", ".0f"), strict=True)
    ]


def table_section(paper: Paper, table: Table, results: Sequence[Result], other: Placed, logs: Logs) -> str:
    """One table: the paper's figures and ours side by side, the commands; then results of its rows on other data."""
    own = table.miniature.columns if table.miniature else []
    header = ["", "recipe"]
    for column in table.columns:
        header += [f"{column.title}, paper", "ours"] if column.metric else [f"{column.title}, paper"]
    header += [f"{column.title}, *miniature*" for column in own]
    rows: list[list[str]] = []
    used: list[tuple[Result, Column]] = []
    for row in table.rows:
        recipe = " ".join(f"`{part}`" for part in (row.recipe, *row.changes) if part)
        cells = [row.method, recipe]
        for column, figure in zip(table.columns, row.paper, strict=True):
            cells.append("" if figure == "-" else figure.replace("*", r"\*"))
            if column.metric:
                found = [result for result in results if fills(result, row, column, paper)]
                used += [(result, column) for result in found]
                cells.append("; ".join(own_cell(result, column, paper.reference) for result in found))
        rows.append([*cells, *(logs.cell(column, row.miniature) for column in own)])
    parts = [f"### {table.name}: {table.title}", markdown(header, rows)]
    sources = dict.fromkeys(f"[{r.source}]({r.source})" + (f" ({r.machine})" if r.machine else "") for r, _ in used)
    if sources:
        parts.append(f"Ours: {', '.join(sources)}.")
        scores = [(column.metric, *own_score(result, column, paper.reference)) for result, column in used]
        parts.append(signatures((metric, signature) for metric, _, signature, _ in scores))
        marks = {mark for *_, marks in scores for mark in marks}
        parts += [f"*{mark}*: {note}." for mark, note in NOTES.items() if mark in marks]
    if table.miniature:
        parts.append(miniature_note(table, logs))
    lines = table_commands(table)
    if lines:
        parts.append("```bash\n" + "\n".join(lines) + "\n```")
    if table.note:
        parts.append(table.note)
    if other:
        parts += ["Ours on other data or changed, *not comparable with the figures above*:", other_section(other)]
    return "\n\n".join(parts)


def miniature_note(table: Table, logs: Logs) -> str:
    """What the miniature of a table is, its files, and which of them are not there."""
    names = [file for row in table.rows if row.miniature for file in logs.files(table.miniature, row.miniature)]
    links = [f"[{name}]({name})" if logs.content(name) is not None else f"`{name}` (not run yet)" for name in names]
    files = f" Files: {', '.join(dict.fromkeys(links))}." if links else ""
    return f"*miniature*, **not comparable with the paper's figures**: {table.miniature.note}{files}"


def fills(result: Result, row: Row, column: Column, paper: Paper) -> bool:
    """Whether a result on the paper's corpora belongs into a cell."""
    same = is_row(result, row, paper) and result.corpus == column.corpus
    aligned = result.aligned or column.metric not in ALIGNED
    return same and aligned and column.metric in result.scores[result.reference(paper.reference)]


def own_score(result: Result, column: Column, wanted: str = "release") -> tuple[float, str, list[str]]:
    """Our score, its signature, and marks (``NOTES``) where it is not taken as the paper took it.

    Args:
        wanted: the reference that the paper's figures were taken against.
    """
    reference, kind = result.reference(wanted), column.metric
    if reference != wanted:
        return *result.scores[reference][kind], [MARKS[reference]]
    if kind != "d_bleu" or wanted != "release":
        return *result.scores[reference][kind], []
    by_instance = "d_bleu_instance" in result.scores[reference]
    if not by_instance or known_recipe(result.recipe).max_sentences == 1:
        return *result.scores[reference][kind], ["whole documents"]
    return *result.scores[reference]["d_bleu_instance"], []


def own_cell(result: Result, column: Column, wanted: str) -> str:
    """Our score, its marks, and the budget if there was one."""
    score, _, marks = own_score(result, column, wanted)
    notes = [*marks, *([f"{result.minutes:g} min of training"] if result.minutes else [])]
    return f"{score:.2f}" + (f" ({', '.join(notes)})" if notes else "")


def signatures(found: Iterable[tuple[str, str]]) -> str:
    """The signatures of scores, each once, from (kind, signature)."""
    by_metric: dict[str, set[str]] = {}
    for kind, signature in found:
        by_metric.setdefault("TER" if kind == "ter" else "BLEU", set()).add(f"`{signature}`")
    return " ".join(f"{metric}: {', '.join(sorted(each))}." for metric, each in sorted(by_metric.items()))


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
    scores = [result.scores[result.reference("raw")] for _, result in placed]
    found = signatures((kind, kinds[kind][1]) for kinds in scores for kind in KINDS)
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
