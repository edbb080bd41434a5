"""The package's import graph, read from the sources without importing anything."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One module imports another, in one line; ``deferred``: inside a function, or only for type checkers."""

    importer: str
    imported: str
    line: int
    deferred: bool


def long_files(folders: Iterable[Path], limit: int) -> dict[Path, int]:
    """Python files below ``folders`` with more than ``limit`` lines."""
    lengths = {path: len(path.read_bytes().splitlines()) for folder in folders for path in sorted(folder.rglob("*.py"))}
    return {path: length for path, length in lengths.items() if length > limit}


def modules(package: Path) -> dict[str, Path]:
    """Dotted name to file of every module of the package in this folder; a package has the name of its folder.

    Folders without ``__init__.py`` count, too: Python imports them all the same.
    """
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(package: Path) -> list[Import]:
    """Every import of one module of the package by another, wherever it stands in the file.

    ``from a.b import c`` is an import of ``a.b.c`` where that is a module, else of ``a.b``. Importing ``a.b.c`` also
    runs ``a`` and ``a.b``: these count as imported, unless the importer lies in them and they run before it anyway. (So
    a package may import its modules and these each other, but none of them what only the package gathers.)
    """
    known = modules(package)
    found = []
    for importer, path in known.items():
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for node, deferred in _import_statements(tree, False):
            for name in _names(node, importer, path.name == "__init__.py", known):
                for imported in (name, *_packages_run(name, importer)):
                    if imported in known and imported != importer:
                        found.append(Import(importer, imported, node.lineno, deferred))
    return found


def _import_statements(node: ast.AST, deferred: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, deferred
        else:
            functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
            for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _import_statements(child, deferred or for_types or isinstance(child, functions))


def _names(node: ast.Import | ast.ImportFrom, importer: str, is_package: bool, known: dict[str, Path]) -> list[str]:
    """Modules that a statement names; those of other packages are among them."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        above = importer.split(".")
        above = above[: len(above) - node.level + is_package]
        base = ".".join([*above, *filter(None, [node.module])])
    whole = (f"{base}.{alias.name}" for alias in node.names)
    return [name if name in known else base for name in whole]


def _packages_run(name: str, importer: str) -> list[str]:
    """Packages around a module that run with it, but not those around the importer."""
    parts = name.split(".")
    around = (".".join(parts[:count]) for count in range(1, len(parts)))
    return [package for package in around if not f"{importer}.".startswith(f"{package}.")]


def cycles(found: Iterable[Import]) -> list[list[str]]:
    """Groups of modules each of which reaches every other by imports, sorted."""
    after: dict[str, set[str]] = {}
    for one in found:
        after.setdefault(one.importer, set()).add(one.imported)
        after.setdefault(one.imported, set())
    reached = {module: _reached(module, after) for module in after}
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in after
        if module in reached[module]
    }
    return sorted(map(list, groups))


def _reached(module: str, after: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = [*after[module]]
    while ahead:
        one = ahead.pop()
        if one not in seen:
            seen.add(one)
            ahead += after[one]
    return seen


def part_of(module: str) -> str:
    """The part of the package that a module is in (``data`` of ``gtransformer.data.batching``), or the package."""
    return module.split(".")[1] if "." in module else module


def wrong_ways(found: Iterable[Import], allowed: dict[str, set[str]]) -> list[Import]:
    """Imports from one room into another that ``allowed`` (room to rooms that it may import) does not name."""
    return [
        one
        for one in found
        if part_of(one.importer) != part_of(one.imported)
        and part_of(one.imported) not in allowed.get(part_of(one.importer), set())
    ]
