"""The figures of a paper's tables, as a file of papers/ has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.references import REFERENCES
from gtransformer.run.needs import Need, needs
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.settings import Entries, read_settings, setting, typed

PAPER = Path(__file__).parent / "papers" / "g_transformer.yaml"  # Bao et al. (2021)
METRICS = {"s-BLEU": "s_bleu", "d-BLEU": "d_bleu", "BLEU": "s_bleu", "lower-cased BLEU": "s_bleu_lc", "TER": "ter"}


@dataclass(frozen=True)
class Column:
    """One column of a table: a corpus and a metric that we fill; neither for one that is the paper's alone."""

    title: str
    corpus: str | None = None
    metric: str | None = None


@dataclass
class MiniatureColumn:
    """One column of our own miniature beside a table: where its figures stand in the result files.

    Attributes:
        file: a result file, relative to the folder of all logs.
        value: the way to the figure in it: a key, a place in a list, or keys and values of the entry of a list.
        error: the key of its standard error, which stands beside it, if it has one.
        scale: what figures are multiplied by (100: fractions as per cent).
        digits: behind the point.
    """

    title: str
    file: str
    value: list[Any]
    error: str | None = None
    scale: int | float | None = 1
    digits: int = 2


@dataclass
class Row:
    """One row: the paper's figures as printed, the recipe that runs it, recipes of the same kind on other data.

    ``changes``: what makes the row of the recipe (``generate.strategy=sequential``); ``miniature``: the row's name in
    the files of the table's miniature, its method if none is given; "-": it has none.
    """

    method: str
    paper: Any
    recipe: str | None = None
    also: list[str] | None = None
    changes: list[str] | None = None
    miniature: str | None = None


@dataclass
class Table:
    """One table of the paper; of its miniature the columns, and what must be known to read them."""

    name: str
    title: str
    columns: Any
    rows: list[Any]
    note: str | None = None
    miniature: dict[str, Any] | None = None

    def columns_of_miniature(self) -> list[MiniatureColumn]:
        """The columns of ours beside those of the paper."""
        return self.miniature["columns"] if self.miniature else []


@dataclass
class Paper:
    """All tables of a paper, and below the name of its file, as recipes name it in ``rows``.

    Attributes:
        title: authors and year; introduction: of its tables.
        reference: the one that scores beside its figures are taken against.
        corpora: the paper's name of a corpus: ours.
        changes: by the paper's name of a corpus, what all recipes change there, ``SECTION.OPTION=VALUE``.
        statistics: columns and rows of Table 1 by corpus, where that is about corpora.
    """

    title: str
    introduction: str
    reference: str = setting(f"one of {', '.join(REFERENCES)}", REFERENCES.__contains__)
    corpora: dict[str, str] = setting("PAPER'S NAME: OURS")
    tables: list[Any] = setting("a list of tables")
    changes: dict[str, Any] | None = None
    statistics: dict[str, Any] | None = None
    name = ""


def paper_files() -> list[Path]:
    """Return the papers whose tables there are, the one of G-Transformer first."""
    return sorted(PAPER.parent.glob("*.yaml"), key=lambda path: (path != PAPER, path))


def read_paper(path: Path) -> Paper:
    """Read the tables in a file.

    Raises UserError for a missing or mistaken key, an unknown recipe, too few or too many figures.
    """
    paper = read_settings(path, Paper)
    paper.name, paper.introduction = path.stem.replace("_", "-"), paper.introduction.strip()
    paper.changes, statistics = paper.changes or {}, paper.statistics or {"columns": [], "rows": {}}
    for name in (*paper.changes, *statistics["rows"]):
        if name not in paper.corpora:
            raise UserError(f"{path}: {name}: not one of the corpora, {', '.join(paper.corpora)}")
    for name, figures in statistics["rows"].items():
        _check_width(f"{path}: Table 1, {name}", figures, statistics["columns"])
    paper.statistics = statistics
    paper.tables = [_table(table, path, paper.corpora) for table in paper.tables]
    return paper


def _table(entry: Any, path: Path, corpora: dict[str, str]) -> Table:
    table = typed(entry, Table, str(path))
    table.columns = [_column(text, path, corpora) for text in _cells(table.columns, path)]
    table.rows = [typed(row, Row, str(path), table.name) for row in table.rows]
    for row in table.rows:
        where = f"{path}: {table.name}, row '{row.method}'"
        row.paper, row.also, row.changes = _cells(row.paper, where), row.also or [], tuple(row.changes or ())
        row.miniature = {None: row.method, "-": None}.get(row.miniature, row.miniature)
        _check_width(where, row.paper, table.columns)
        for recipe, changes in [(row.recipe, row.changes), *((other, ()) for other in row.also)]:
            try:
                recipe and known_recipe(recipe, changes)
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
    if table.miniature:
        shared = Entries({key: value for key, value in table.miniature.items() if key not in ("columns", "note")})
        columns = [shared | one for one in table.miniature["columns"]]
        table.miniature = table.miniature | Entries(
            {"columns": [typed(one, MiniatureColumn, str(path), f"{table.name}, miniature") for one in columns]}
        )
    return table


def _cells(content: Any, where: object) -> list[str]:
    """Texts of a list, or of one line with blanks between them."""
    cells = content.split() if isinstance(content, str) else content
    if not isinstance(cells, list) or not all(isinstance(cell, str) for cell in cells):
        raise UserError(f"{where}: {content!r} stands where texts must; give a list of them, or one line in quotes")
    return cells


def _check_width(where: str, figures: list[str], columns: list) -> None:
    if len(figures) != len(columns):
        raise UserError(f"{where}: {len(figures)} figures for {len(columns)} columns")


def _column(text: str, path: Path, corpora: dict[str, str]) -> Column:
    corpus, colon, metric = text.partition(":")
    if not colon:
        return Column(text)
    if corpus not in corpora or metric not in METRICS:
        known = f"{', '.join(corpora)} and {', '.join(METRICS)}"
        raise UserError(f"{path}: column '{text}': write CORPUS:METRIC with {known}")
    return Column(f"{corpus} {metric}", corpora[corpus], METRICS[metric])


@cache  # a page asks again and again for the same
def known_recipe(name: str, changes: tuple[str, ...] = ()) -> Recipe:
    """Return a recipe with some changes. Raise UserError as ``load_recipe``."""
    return load_recipe(name, list(changes))


def commands(recipe: str) -> list[str]:
    """Return the commands that run a recipe on CORPUS, those of the recipes that it needs first."""
    return [need.command("CORPUS") for need in (*needs(recipe), Need(recipe, "all"))]
