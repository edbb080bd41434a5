"""The numbers of a paper's tables, from a file of papers/."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtransformer.errors import UserError
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.settings import Entries, read_settings, setting, typed

if TYPE_CHECKING:
    from gtransformer.lab.report.results import Result

PAPER = Path(__file__).parent / "papers" / "g_transformer.yaml"  # Bao et al. (2021)


@dataclass
class OwnColumn:
    """A column of ours next to a table: the location of its values in result files.

    Attributes:
        file: a result file, relative to exp_logs/.
        value: the path to the value: keys, list indices, or keys and values that identify a list entry.
        scale: factor of the values (100: fractions as per cent).
        digits: decimal places.
    """

    title: str
    file: str
    value: list[Any]
    scale: int | float = 1
    digits: int = 2


@dataclass
class Row:
    """One row: the paper's numbers as printed, its recipe, and recipes of the same kind on other data.

    ``changes``: the row's changes of the recipe (``generate.strategy=sequential``); ``miniature``: the row's name in
    our files (default: its method); "-": none.
    """

    method: str
    paper: Any
    recipe: str | None = None
    also: list[str] | None = None
    changes: list[str] | None = None
    miniature: str | None = None

    @property
    def own(self) -> str | None:
        """The row's name in our result files."""
        return {None: self.method, "-": None}.get(self.miniature, self.miniature)


@dataclass
class Table:
    """One table of the paper; ``miniature``: columns of ours, and notes on them."""

    name: str
    title: str
    columns: Any
    rows: list[Any]
    note: str | None = None
    miniature: dict[str, Any] | None = None

    @property
    def own(self) -> list[OwnColumn]:
        """Our columns."""
        return self.miniature["columns"] if self.miniature else []

    def rows_of(self, result: Result) -> list[Row]:
        """Return the rows of a result's recipe with its changes, else those of the unchanged recipe."""
        rows = [row for row in self.rows if result.recipe in (row.recipe, *row.also)]
        same = [row for row in rows if sorted(row.changes) == sorted(result.changes)]
        return same or [row for row in rows if not row.changes]


@dataclass
class Paper:
    """All tables of a paper; recipes refer to the file's name in ``rows``.

    Attributes:
        title: authors, year and title.
        page: the name of its page.
        introduction: notes on all tables.
        figures: result files of its figures, relative to exp_logs/, without suffix.
    """

    title: str
    page: str
    introduction: str
    tables: list[Any] = setting("a list of tables")
    figures: list[str] | None = None
    name = ""


def paper_files() -> list[Path]:
    """Return the files of papers, G-Transformer's first."""
    return sorted(PAPER.parent.glob("*.yaml"), key=lambda path: (path != PAPER, path))


def read_paper(path: Path) -> Paper:
    """Read the tables in a file.

    Raises UserError for a missing or unknown key, an unknown recipe, or a wrong number of values.
    """
    paper = read_settings(path, Paper)
    paper.name, paper.introduction = path.stem.replace("_", "-"), paper.introduction.strip()
    paper.tables = [_table(table, path) for table in paper.tables]
    return paper


def _table(entry: Any, path: Path) -> Table:
    table = typed(entry, Table, str(path))
    table.columns = [text.replace(":", " ") for text in _cells(table.columns, path)]
    table.rows = [typed(row, Row, str(path), table.name) for row in table.rows]
    for row in table.rows:
        where = f"{path}: {table.name}, row '{row.method}'"
        row.paper, row.also, row.changes = _cells(row.paper, where), row.also or [], tuple(row.changes or ())
        if len(row.paper) != len(table.columns):
            raise UserError(f"{where}: {len(row.paper)} numbers for {len(table.columns)} columns")
        for recipe, changes in [(row.recipe, row.changes), *((other, ()) for other in row.also)]:
            try:
                recipe and known_recipe(recipe, changes)
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
    if table.miniature:
        shared = Entries({key: value for key, value in table.miniature.items() if key not in ("columns", "note")})
        columns = [typed(shared | one, OwnColumn, str(path), table.name) for one in table.miniature["columns"]]
        table.miniature = table.miniature | Entries({"columns": columns})
    return table


def _cells(content: Any, where: object) -> list[str]:
    """Return texts from a list, or from one line separated by blanks."""
    cells = content.split() if isinstance(content, str) else content
    if not isinstance(cells, list) or not all(isinstance(cell, str) for cell in cells):
        raise UserError(f"{where}: {content!r} is not a text; give a list of texts, or one line in quotes")
    return cells


@cache  # several rows name the same
def known_recipe(name: str, changes: tuple[str, ...] = ()) -> Recipe:
    """Return a recipe with changes. Raises UserError as ``load_recipe``."""
    return load_recipe(name, list(changes))
