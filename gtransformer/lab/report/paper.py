"""The figures of a paper's tables, as a file of papers/ has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.references import REFERENCES
from gtransformer.lab.report.keys import need, need_cells, need_texts
from gtransformer.lab.report.miniature import Miniature, read_miniature
from gtransformer.run.needs import Need, needs
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.settings import read_entries

PAPER = Path(__file__).parent / "papers" / "g_transformer.yaml"  # Bao et al. (2021)
KEYS = {"title", "introduction", "reference", "corpora", "changes", "statistics", "tables"}
METRICS = {"s-BLEU": "s_bleu", "d-BLEU": "d_bleu", "BLEU": "s_bleu", "lower-cased BLEU": "s_bleu_lc", "TER": "ter"}


@dataclass(frozen=True)
class Column:
    """One column of a table: a corpus and a metric that we fill; neither for one that is the paper's alone."""

    title: str
    corpus: str | None = None
    metric: str | None = None


@dataclass(frozen=True)
class Row:
    """One row: the paper's figures as printed, the recipe that runs it, recipes of the same kind on other data.

    changes: what makes the row of the recipe (``generate.strategy=sequential``); miniature: the row's name in the files
    of the table's miniature.
    """

    method: str
    paper: list[str]
    recipe: str | None = None
    also: list[str] = field(default_factory=list)
    changes: tuple[str, ...] = ()
    miniature: str | None = None


@dataclass(frozen=True)
class Table:
    """One table of the paper."""

    name: str
    title: str
    columns: list[Column]
    rows: list[Row]
    note: str = ""
    miniature: Miniature | None = None


@dataclass(frozen=True)
class Paper:
    """All tables of a paper.

    Attributes:
        name: of its file, as recipes name it in ``rows``; title: authors and year; introduction: of its tables.
        reference: the one that scores beside its figures are taken against.
        corpora: the paper's name of a corpus: ours.
        changes: by our name of a corpus, what all recipes change there, ``SECTION.OPTION=VALUE``.
        columns, statistics: those of Table 1 by corpus, where that is about corpora.
    """

    name: str
    title: str
    introduction: str
    reference: str
    corpora: dict[str, str]
    changes: dict[str, tuple[str, ...]]
    columns: list[str]
    statistics: dict[str, list[str]]
    tables: list[Table]


def paper_files() -> list[Path]:
    """The papers whose tables there are, the one of G-Transformer first."""
    return sorted(PAPER.parent.glob("*.yaml"), key=lambda path: (path != PAPER, path))


def read_paper(path: Path) -> Paper:
    """The tables in a file.

    Raises UserError for a missing or mistaken key, an unknown recipe, too few or too many figures.
    """
    content = read_entries(path)
    unknown = sorted(set(content) - KEYS)
    if unknown:
        raise UserError(f"{content.at(unknown[0])}: unknown key '{unknown[0]}'; known are {', '.join(sorted(KEYS))}")
    corpora = need(content, path, "corpora", kind=dict)
    title, text, reference = (need(content, path, key, kind=str) for key in ("title", "introduction", "reference"))
    if reference not in REFERENCES:
        raise UserError(f"{path}: reference '{reference}': known are {', '.join(REFERENCES)}")
    statistics = need(content, path, "statistics", kind=dict, optional=True) or {"columns": [], "rows": {}}
    rows = need(statistics, path, "rows", kind=dict)
    changes = need(content, path, "changes", kind=dict, optional=True) or {}
    if strange := next((name for name in changes if name not in corpora), None):
        raise UserError(f"{path}: changes, {strange}: not one of the corpora, {', '.join(corpora)}")
    paper = Paper(
        path.stem.replace("_", "-"),
        title,
        text.strip(),
        reference,
        corpora,
        {corpora[name]: need_texts(changes, path, name) for name in changes},
        list(need_texts(statistics, path, "columns")),
        {corpus: list(need_texts(rows, path, corpus)) for corpus in rows},
        [_table(path, table, corpora) for table in need(content, path, "tables", kind=list)],
    )
    for corpus, figures in paper.statistics.items():
        if corpus not in paper.corpora:
            raise UserError(f"{path}: Table 1, {corpus}: not one of the corpora, {', '.join(paper.corpora)}")
        if len(figures) != len(paper.columns):
            raise UserError(f"{path}: Table 1, {corpus}: {len(figures)} figures for {len(paper.columns)} columns")
    return paper


def _table(path: Path, content: Any, corpora: dict[str, str]) -> Table:
    name, title = (need(content, path, key, kind=str) for key in ("name", "title"))
    columns = [_column(path, text, corpora) for text in need_cells(content, path, "columns")]
    rows = []
    for row in need(content, path, "rows", kind=list):
        method, figures = need(row, path, "method", kind=str), need_cells(row, path, "paper")
        where = f"{path}: {name}, row '{method}'"
        if len(figures) != len(columns):
            raise UserError(f"{where}: {len(figures)} figures for {len(columns)} columns")
        recipe, also = need(row, path, "recipe", kind=str, optional=True), list(need_texts(row, path, "also"))
        changes = need_texts(row, path, "changes")
        for known, changed in [*([(recipe, changes)] if recipe else []), *((other, ()) for other in also)]:
            try:
                known_recipe(known, changed)
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
        own = need(row, path, "miniature", kind=str, optional=True) or method
        rows.append(Row(method, figures, recipe, also, changes, None if own == "-" else own))
    note = need(content, path, "note", kind=str, optional=True) or ""
    return Table(name, title, columns, rows, note, read_miniature(content, path))


def _column(path: Path, text: str, corpora: dict[str, str]) -> Column:
    corpus, colon, metric = text.partition(":")
    if not colon:
        return Column(text)
    if corpus not in corpora or metric not in METRICS:
        raise UserError(
            f"{path}: column '{text}': write CORPUS:METRIC with {', '.join(corpora)} and {', '.join(METRICS)}"
        )
    return Column(f"{corpus} {metric}", corpora[corpus], METRICS[metric])


@cache  # a page asks again and again for the same
def known_recipe(name: str, changes: tuple[str, ...] = ()) -> Recipe:
    """A recipe with some changes. Raises UserError as ``load_recipe``."""
    return load_recipe(name, list(changes))


def commands(recipe: str) -> list[str]:
    """The commands that run a recipe on CORPUS, those of the recipes that it needs first."""
    return [need.command("CORPUS") for need in (*needs(recipe), Need(recipe, "all"))]
