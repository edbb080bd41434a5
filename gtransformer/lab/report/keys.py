"""Reading what people write or edit by hand: a key that is missing, or holds something else, is said with its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtransformer.errors import UserError

ABOUT = "about.yaml"  # of a folder of results: what it is
NUMBER = (int, float)
KINDS = {
    str: "text", int: "a whole number", NUMBER: "a number", bool: "true or false", list: "a list",
    dict: "lines of the form 'key: value'",
}  # fmt: skip


def need(content: Any, path: Path, *keys: str, kind: Any = object, optional: bool = False) -> Any:
    """The value at ``keys`` in what the file ``path`` holds.

    Args:
        kind: one of ``KINDS`` that the value must be.
        optional: None for a key that is missing or empty.

    Raises UserError, naming file and key, for a key that is missing or a value of another kind.
    """
    value = content
    for number, key in enumerate(keys):
        if not isinstance(value, dict):
            raise _wrong(path, keys[:number], value, dict)
        if key not in value and not optional:
            raise UserError(
                f"{path}: lacks the key '{_dotted(keys[: number + 1])}'; add it, or write the file anew with the "
                "program that made it"
            )
        value = value.get(key)
        if value is None and optional:
            return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        raise _wrong(path, keys, value, kind)
    return value


def need_texts(content: Any, path: Path, *keys: str) -> tuple[str, ...]:
    """A list of texts; empty for a key that is missing. Raises UserError as ``need``."""
    values = need(content, path, *keys, kind=list, optional=True) or []
    if not all(isinstance(value, str) for value in values):
        raise _wrong(path, keys, values, list)
    return tuple(values)


def need_cells(content: Any, path: Path, key: str) -> list[str]:
    """The texts at a key, a list or one line with blanks between them. Raises UserError as ``need``."""
    if isinstance(content, dict) and isinstance(content.get(key), list):
        return list(need_texts(content, path, key))
    return need(content, path, key, kind=str).split()


def _wrong(path: Path, keys: tuple[str, ...], value: Any, kind: Any) -> UserError:
    where = f"'{_dotted(keys)}' is" if keys else "it holds"
    return UserError(f"{path}: {where} {str(value)[:60]!r}, but {KINDS[kind]} must stand there")


def _dotted(keys: tuple[str, ...]) -> str:
    return ".".join(map(str, keys))
