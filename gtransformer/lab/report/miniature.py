"""Figures of our own miniatures beside a paper's: where they stand in the result files, read and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.lab.report.keys import NUMBER, need

Step = str | int | Mapping[str, Any]
ROW = "{row}"  # in a file's name and on the way to a figure: the row's name in that file


@dataclass(frozen=True)
class MiniatureColumn:
    """One column of our figures.

    Attributes:
        file: a result file, relative to the folder of all logs.
        value: the way to the figure in it: a key, a place in a list, or keys and values of the entry of a list.
        error: the key of its standard error, which stands beside it, if it has one.
        scale: what figures are multiplied by (100: fractions as per cent).
        digits: behind the point.
    """

    title: str
    file: str
    value: tuple[Step, ...]
    error: str | None
    scale: float
    digits: int


@dataclass(frozen=True)
class Miniature:
    """Our columns beside a table, and what must be known to read them."""

    columns: list[MiniatureColumn]
    note: str


def read_miniature(table: Any, path: Path) -> Miniature | None:
    """The miniature of a table in a paper's file. Raises UserError for a key that is missing or mistaken."""
    shared = need(table, path, "miniature", kind=dict, optional=True)
    if shared is None:
        return None
    columns = []
    for own in need(shared, path, "columns", kind=list):
        column = {"error": None, "scale": 1, "digits": 2, **shared, **need(own, path, kind=dict)}
        columns.append(
            MiniatureColumn(
                need(column, path, "title", kind=str),
                need(column, path, "file", kind=str),
                _way(column, path),
                need(column, path, "error", kind=str, optional=True),
                need(column, path, "scale", kind=NUMBER),
                need(column, path, "digits", kind=int),
            )
        )
    return Miniature(columns, need(shared, path, "note", kind=str))


def _way(column: Any, path: Path) -> tuple[Step, ...]:
    steps = need(column, path, "value", kind=list)
    if not all(isinstance(step, (str, int, dict)) for step in steps):
        raise UserError(
            f"{path}: value {steps} of column '{column['title']}': a step is a key, a place in a list, or keys and "
            "values of an entry of a list"
        )
    return tuple(steps)


class Logs:
    """Result files, each read once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._read: dict[str, Any] = {}

    def content(self, name: str) -> Any:
        """What a file holds; None if it is not there."""
        if name not in self._read:
            path = self.folder / name
            self._read[name] = read_json(path) if path.is_file() else None
        return self._read[name]

    def files(self, miniature: Miniature, row: str) -> list[str]:
        """The files of a row."""
        return [column.file.replace(ROW, row) for column in miniature.columns]

    def cell(self, column: MiniatureColumn, row: str | None) -> str:
        """A figure, with its standard error; empty where there is none. Raises UserError for what is no number."""
        if row is None:
            return ""
        content = self.content(column.file.replace(ROW, row))
        beside = (*column.value[:-1], column.error) if column.error else ()
        value, error = (self._number(content, way, column, row) for way in (column.value, beside))
        if value is None:
            return ""
        shown = f"{value * column.scale:.{column.digits}f}"
        return shown if error is None else f"{shown} ± {error * column.scale:.{column.digits}f}"

    def _number(self, content: Any, way: Sequence[Step], column: MiniatureColumn, row: str) -> float | None:
        if not way:
            return None
        for step in way:
            content = _follow(content, step, row)
        if content is not None and (isinstance(content, bool) or not isinstance(content, NUMBER)):
            file = self.folder / column.file.replace(ROW, row)
            raise UserError(f"{file}: no number for '{column.title}' of {row}, but {str(content)[:60]!r}")
        return content


def _follow(content: Any, step: Step, row: str) -> Any:
    """What a step leads to; None if there is nothing."""
    if isinstance(step, Mapping):
        wanted = {key: str(value).replace(ROW, row) for key, value in step.items()}
        entries = content if isinstance(content, list) else []
        fitting = (entry for entry in entries if all(str(entry.get(key)) == value for key, value in wanted.items()))
        return next(fitting, None)
    if isinstance(step, int):
        return content[step] if isinstance(content, list) and step < len(content) else None
    return content.get(step.replace(ROW, row)) if isinstance(content, dict) else None
