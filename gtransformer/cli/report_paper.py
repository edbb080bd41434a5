"""The figures of the paper's tables, as exp_logs/paper.yaml has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtransformer.cli.recipe import load_recipe
from gtransformer.cli.report_results import read_yaml
from gtransformer.errors import UserError

METRICS = {"s-BLEU": "s_bleu", "d-BLEU": "d_bleu"}


@dataclass(frozen=True)
class Column:
    """One column of a table: a corpus and a metric that we fill; neither for one that is the paper's alone."""

    title: str
    corpus: str | None = None
    metric: str | None = None


@dataclass(frozen=True)
class Row:
    """One row: the paper's figures as printed, the recipe that runs it, recipes of the same kind on other data."""

    method: str
    paper: list[str]
    recipe: str | None = None
    also: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """One table of the paper."""

    name: str
    title: str
    columns: list[Column]
    rows: list[Row]
    note: str = ""


@dataclass(frozen=True)
class Paper:
    """All tables; ``corpora`` maps the paper's name of a corpus to ours, ``statistics`` is Table 1 by corpus."""

    corpora: dict[str, str]
    columns: list[str]
    statistics: dict[str, list[str]]
    tables: list[Table]


def read_paper(path: Path) -> Paper:
    """The tables in a file. Raises UserError for a missing key, an unknown recipe, too few or too many figures."""
    content = read_yaml(path)
    try:
        statistics = content["statistics"]
        paper = Paper(
            content["corpora"],
            statistics["columns"],
            statistics["rows"],
            [_table(path, table, content["corpora"]) for table in content["tables"]],
        )
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: lacks {error}") from None
    for corpus, figures in paper.statistics.items():
        if len(figures) != len(paper.columns):
            raise UserError(f"{path}: Table 1, {corpus}: {len(figures)} figures for {len(paper.columns)} columns")
    return paper


def _table(path: Path, content: dict[str, Any], corpora: dict[str, str]) -> Table:
    columns = [_column(path, text, corpora) for text in content["columns"].split()]
    rows = []
    for row in content["rows"]:
        figures = row["paper"].split()
        where = f"{path}: {content['name']}, row '{row['method']}'"
        if len(figures) != len(columns):
            raise UserError(f"{where}: {len(figures)} figures for {len(columns)} columns")
        recipes = [*filter(None, [row.get("recipe")]), *row.get("also", [])]
        for recipe in recipes:
            try:
                load_recipe(recipe)
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
        rows.append(Row(row["method"], figures, row.get("recipe"), row.get("also", [])))
    return Table(content["name"], content["title"], columns, rows, content.get("note", ""))


def _column(path: Path, text: str, corpora: dict[str, str]) -> Column:
    corpus, colon, metric = text.partition(":")
    if not colon:
        return Column(text)
    if corpus not in corpora or metric not in METRICS:
        raise UserError(
            f"{path}: column '{text}': write CORPUS:METRIC with {', '.join(corpora)} and {', '.join(METRICS)}"
        )
    return Column(f"{corpus} {metric}", corpora[corpus], METRICS[metric])


def commands(recipe: str) -> list[str]:
    """The commands that run a recipe on CORPUS, those of the recipes that it needs first."""
    return [*_first(recipe), f"bash scripts/run.sh {recipe} CORPUS all"]


def _first(recipe: str) -> list[str]:
    """What must have run before recipe's stage prepare can, and before its stage train can."""
    loaded = load_recipe(recipe)
    lines = []
    for lender in filter(None, (loaded.prepared_from, loaded.vocabulary_from)):
        lines += [*_first(lender), f"bash scripts/run.sh {lender} CORPUS prepare"]
    if loaded.pretrained_from:
        start = loaded.pretrained_from
        lines += [
            *_first(start),
            f"bash scripts/run.sh {start} CORPUS prepare",
            f"bash scripts/run.sh {start} CORPUS train",
        ]
    return list(dict.fromkeys(lines))
