"""Imports follow docs/architecture.md: no circle, arrows one way, fairseq in the plugin alone."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import gtransformer

PACKAGE = Path(gtransformer.__file__).resolve().parent
# A part may import those before it.
ORDER = (
    "installation errors files settings optional modules data preprocess models search evaluation "
    "translation plugin run gtransformer cli __main__ lab"
).split()
APART = {("translation", "evaluation"), ("run", "translation")}  # neither knows the other


def imported(path: Path) -> set[str]:
    """Return the full names that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def part_of(module: str) -> str:
    """Return the part of the package that a module is in: ``data`` of
    ``gtransformer.data.batching``.
    """
    return (module + ".gtransformer").split(".")[1]


def test_imports():
    files = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        files[name.removesuffix(".__init__")] = imported(path)
    assert {part_of(name) for name in files} == {*ORDER}
    graph = {}
    for name, names in files.items():
        part = part_of(name)
        libraries = {one.split(".")[0] for one in names}
        assert part in ("plugin", "lab") or not libraries & {"fairseq", "fairseq_cli", "hydra"}
        graph[name] = {one if one in files else one.rpartition(".")[0] for one in names}
        graph[name] &= files.keys()
        for other in map(part_of, graph[name]):
            assert ORDER.index(other) <= ORDER.index(part), f"{name} imports {other}"
            assert (part, other) not in APART, f"{name} imports {other}"
    TopologicalSorter(graph).prepare()
