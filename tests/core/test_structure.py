"""The parts of the package: no long file, no circle of imports, arrows one way, fairseq in the
plugin alone.
"""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import gtransformer

PACKAGE = Path(gtransformer.__file__).resolve().parent
TESTS = Path(__file__).resolve().parents[1]
LINES = 600
BASE = {"errors"}
TEXT = BASE | {"files", "data"}
NETWORK = BASE | {"modules", "data"}
PLUGIN = {"plugin"}  # what fairseq sees
# Which rooms each may import; what runs last stands last. The package itself, which registers with
# fairseq, may import all of the core.
ALLOWED = {
    "installation": set(),
    "errors": {"installation"},
    "files": BASE,
    "settings": BASE | {"files"},
    "optional": BASE,
    "modules": BASE,
    "data": BASE | {"files", "modules"},
    "preprocess": TEXT | {"optional", "installation"},
    "models": NETWORK | {"files", "optional"},
    "search": NETWORK | {"models"},
    "evaluation": TEXT | {"installation", "preprocess", "optional", "models"},
    "translation": NETWORK | {"files", "preprocess", "models", "search"},
}
ALLOWED |= dict.fromkeys(PLUGIN, ALLOWED.keys() | PLUGIN)
ALLOWED["run"] = TEXT | {
    "settings",
    "installation",
    "modules",
    "preprocess",
    "plugin",
    "evaluation",
}
ALLOWED["cli"] = ALLOWED.keys() | {"gtransformer"}  # the core's commands: all of the core
ALLOWED["lab"] = ALLOWED.keys() | {"gtransformer"}  # which knows nothing of it
ABOVE_ALL = {"gtransformer", "__main__"}


@cache
def imports() -> dict[str, set[str]]:
    """By module, the modules of the package that it imports, anywhere in the file."""
    paths = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        paths[name.removesuffix(".__init__")] = path
    found = {}
    for name, path in paths.items():
        named = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{name}: a relative import"
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                named |= {one if one in paths else node.module for one in whole}
        found[name] = named & paths.keys()
    return found


def part_of(module: str) -> str:
    """The part of the package that a module is in (``data`` of ``gtransformer.data.batching``), or
    the package.
    """
    return module.split(".")[1] if "." in module else module


def test_no_long_file():
    files = [path for folder in (PACKAGE, TESTS) for path in folder.rglob("*.py")]
    assert not [path for path in files if len(path.read_bytes().splitlines()) > LINES]


def test_no_cycle():
    TopologicalSorter(imports()).prepare()


def test_only_the_plugin_and_the_lab_import_fairseq():
    """Nor hydra, which it brings; omegaconf is for recipes, too, which need it for training."""
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] in PLUGIN | {"lab"}:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            wrong += [
                f"{path}: {name}"
                for name in names
                if name.split(".")[0] in ("fairseq", "fairseq_cli", "hydra")
            ]
    assert not wrong


def test_arrows_point_one_way():
    assert {part_of(name) for name in imports()} <= ALLOWED.keys() | ABOVE_ALL
    wrong = []
    for name, imported in imports().items():
        for one in imported:
            part, other = part_of(name), part_of(one)
            allowed = ALLOWED.keys() - {"lab"} if part in ABOVE_ALL else ALLOWED[part]
            if part != other and other not in allowed:
                wrong.append(f"{name} imports {one}")
    assert not wrong
