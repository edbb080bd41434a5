"""Checks of what a study's file says: an error names the file, the place in it, the key, and what it may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gtransformer.errors import UserError

KINDS = ("scores", "curves")
AXES = ("length", "instances", "model")
ALL = "all"  # as a number of instances: all that there are
# By kind of panel and for lines: the keys that must be there, and those that may.
PANEL_KEYS = {
    "scores": (
        ("title", "kind", "systems", "axis", "values"),
        ("length", "instances", "model", "min-document-tokens"),
    ),
    "curves": (("title", "kind", "quantity", "lines"), ()),
}
LINE_KEYS = ("system", "curve"), ("length", "instances", "model", "min-document-tokens", "label", "flat")
SHARED_KEYS = ("seeds", "systems", "length"), ("corpus", "changes")
SYSTEM_KEYS = ("name", "recipe"), ()
# Options that a study sets itself, and why.
OWN_OPTIONS = {
    "train.seed": "a study trains with several seeds; list them in its file (seeds: [1, 2])",
    "train.log-format": "a study reads its curves from the log that it has chosen",
}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and value != []


def _are_seeds(value: Any) -> bool:
    return _is_list(value) and all(type(seed) is int for seed in value) and len(set(value)) == len(value)


def _are_changes(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value))


def _one_of(*names: str) -> tuple[str, Callable[[Any], bool]]:
    return f"one of {', '.join(names)}", lambda value: value in names


COUNT = "a whole number of at least 1", _is_count
TEXT = "a text", _is_text
# What the value of a key must be, in words, and whether it is.
VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "seeds": ("a list of different whole numbers, such as [1, 2]", _are_seeds),
    "systems": ("at least one", bool),
    "corpus": ("sizes such as {documents: 500}", lambda value: isinstance(value, dict)),
    "changes": ("lines of the form 'SECTION.OPTION: value'", _are_changes),
    "length": COUNT,
    "instances": (f"a whole number of at least 1, or {ALL}", lambda value: value == ALL or _is_count(value)),
    "min-document-tokens": COUNT,
    "kind": _one_of(*KINDS),
    "axis": _one_of(*AXES),
    "values": ("a list of what the axis shows", _is_list),
    "lines": ("a list with an entry for each line", _is_list),
    "flat": ("true or false", lambda value: isinstance(value, bool)),
}


def check_entry(entry: Any, keys: tuple[Sequence[str], Sequence[str]], where: str) -> None:
    """UserError unless ``entry`` has the keys that must be there, none but those and others that may, and fit values.

    A key that may be left out may be null, too.
    """
    needed, others = keys
    if not isinstance(entry, dict):
        raise UserError(f"{where}: is {entry!r}; give lines of the form 'key: value'")
    known = (*needed, *others)
    for key in entry:
        if key not in known:
            raise UserError(f"{where}: unknown key '{key}'; known are {', '.join(known)}")
    missing = [key for key in needed if entry.get(key) is None]
    if missing:
        raise UserError(f"{where}: lacks {', '.join(missing)}")
    for key, value in entry.items():
        if value is not None:
            check_value(key, value, where)


def check_value(key: str, value: Any, where: str) -> None:
    """UserError unless a key's value is what it must be."""
    wanted, fits = VALUES.get(key, TEXT)
    if not fits(value):
        raise UserError(f"{where}: {key} is {value!r}; give {wanted}")


def check_shared(shared: dict[str, Any], where: str) -> None:
    """What panels share: seeds, systems, length, corpus, changes."""
    check_entry(shared, SHARED_KEYS, where)
    if not isinstance(shared["systems"], dict):
        raise UserError(f"{where}: systems is {shared['systems']!r}; give a name and a recipe for each")
    for key, system in shared["systems"].items():
        check_entry(system, SYSTEM_KEYS, f"{where}, system {key}")
    for size, value in (shared.get("corpus") or {}).items():
        if not _is_count(value):
            raise UserError(f"{where}, corpus: {size} is {value!r}; give {COUNT[0]}")
    check_changes(shared.get("changes") or {}, f"{where}, changes: ")


def check_panel(panel: Any, systems: Sequence[str], where: str) -> None:
    """A panel, with its lines or the values of its axis."""
    kind = panel.get("kind") if isinstance(panel, dict) else "scores"
    check_value("kind", kind, where)
    check_entry(panel, PANEL_KEYS[kind], where)
    if kind == "curves":
        for number, line in enumerate(panel["lines"], 1):
            check_entry(line, LINE_KEYS, f"{where}, line {number}")
        named = [line["system"] for line in panel["lines"]]
    else:
        if not _is_list(panel["systems"]):
            raise UserError(f"{where}: systems is {panel['systems']!r}; give a list of their keys")
        for value in panel["values"]:
            check_value(panel["axis"], value, f"{where}, values")
        named = panel["systems"]
    for system in named:
        if system not in systems:
            raise UserError(f"{where}: unknown system '{system}'; known are {', '.join(systems)}")


def check_changes(options: Sequence[str] | dict[str, Any], where: str) -> None:
    """UserError for a change (``SECTION.OPTION``, ``=VALUE`` behind it or not) of what a study sets itself."""
    for change in options:
        reason = OWN_OPTIONS.get(change.partition("=")[0].replace("_", "-"))
        if reason:
            raise UserError(f"{where}{change}: {reason}")
