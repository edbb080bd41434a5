"""The rooms of the package: no long file, no circle of imports, arrows one way; and the checks see what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import gtransformer
from tests.structure import Import, cycles, imports, long_files, modules, part_of, wrong_ways

PACKAGE = Path(gtransformer.__file__).resolve().parent
TESTS = Path(__file__).resolve().parents[1]
LINES = 600
BASE = {"errors"}
TEXT = BASE | {"files", "data"}
FAIRSEQ = BASE | {"compat"}  # before anything of fairseq is used, compat is
NETWORK = FAIRSEQ | {"modules", "data"}
# Which rooms each may import; what runs last stands last. The package itself, which registers with fairseq, may import
# all of the core.
ALLOWED = {
    "installation": set(),
    "errors": {"installation"},
    "compat": set(),
    "files": BASE,
    "work": BASE | {"files"},
    "settings": BASE | {"files"},
    "optional": BASE,
    "modules": FAIRSEQ,
    "data": BASE | {"files", "modules"},
    "optim": FAIRSEQ,
    "criterions": NETWORK,
    "preprocess": TEXT | {"optional", "installation", "work"},
    "models": NETWORK | {"optional"},
    "search": NETWORK | {"models"},
    "tasks": NETWORK | {"files", "installation", "optim", "criterions", "models", "search"},
    "evaluation": TEXT | {"installation", "preprocess", "tasks", "optional"},
    "translation": TEXT | {"settings", "work", "preprocess", "models", "search", "tasks"},
    "run": TEXT | {"settings", "installation", "work", "modules", "preprocess", "tasks", "evaluation"},
}
ALLOWED["cli"] = ALLOWED.keys() | {"gtransformer"}  # the core's commands: all of the core
ALLOWED["lab"] = ALLOWED.keys() | {"gtransformer"}  # which knows nothing of it
ABOVE_ALL = {"gtransformer", "__main__"}
# The one step from the core to the lab, taken when the option is used: score --html.
TO_THE_LAB = ("gtransformer.cli.score", "gtransformer.lab.report.pages.compare")


@pytest.fixture(scope="module")
def found() -> list[Import]:
    return imports(PACKAGE)


def text(some: list[Import]) -> list[str]:
    return [f"{one.importer}, line {one.line}: imports {one.imported}" for one in some]


def test_no_long_file():
    assert not long_files([PACKAGE, TESTS], LINES)


def test_no_cycle(found):
    assert len(found) > 500
    assert not cycles(found)


def test_arrows_point_one_way(found):
    wrong = [one for one in wrong_ways(found, ALLOWED) if part_of(one.importer) not in ABOVE_ALL]
    importer, imported = TO_THE_LAB
    kept = [one for one in wrong if one.deferred and one.importer == importer and imported.startswith(one.imported)]
    assert imported in {one.imported for one in kept}
    assert not text([one for one in wrong if one not in kept])
    assert not text([one for one in found if part_of(one.importer) in ABOVE_ALL and part_of(one.imported) == "lab"])


def test_every_room_has_its_arrows_and_they_make_no_circle():
    assert {part_of(name) for name in modules(PACKAGE)} == ALLOWED.keys() | ABOVE_ALL
    for number, name in enumerate(ALLOWED):
        assert ALLOWED[name] - ABOVE_ALL <= set(list(ALLOWED)[:number]), name


def tree(folder: Path, **files: str) -> Path:
    """A made-up package; ``a__b="..."`` is ``a/b.py``, ``a__init="..."`` is ``a/__init__.py``."""
    package = folder / "house"
    for name, content in {"init": "", **files}.items():
        *folders, last = name.split("__")
        path = package.joinpath(*folders, "__init__.py" if last == "init" else f"{last}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return package


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("import house.a.two", "from house.a.one import x"),
        ("from .two import y", "from house.a import one as other"),
        ("from ..a.two import y", "def f():\n    def g():\n        import house.a.one"),
        ("import typing, house.a.two", "import typing\nif typing.TYPE_CHECKING:\n    from house.a.one import X"),
    ],
)
def test_a_planted_cycle_is_found(tmp_path, first, second):
    package = tree(tmp_path, a__init="", a__one=first, a__two=second)
    assert cycles(imports(package)) == [["house.a.one", "house.a.two"]]
    (package / "a" / "two.py").write_text("")
    assert not cycles(imports(package))


def test_a_package_gathers_its_modules(tmp_path):
    """Its modules may import each other by full names; what imports the package's own names from inside is a cycle."""
    package = tree(tmp_path, a__init="from house.a.one import x", a__one="from house.a.two import x", a__two="x = 1")
    assert not cycles(imports(package))
    (package / "a" / "two.py").write_text("from house.a import x")
    assert cycles(imports(package)) == [["house.a", "house.a.one", "house.a.two"]]


def test_a_planted_arrow_the_wrong_way_is_found(tmp_path):
    package = tree(
        tmp_path,
        low__init="",
        low__x="def f():\n    from house.high import y",
        high__init="",
        high__y="import house.low.x",
    )
    found = imports(package)
    (wrong,) = [one for one in wrong_ways(found, {"high": {"low"}}) if one.imported == "house.high.y"]
    assert (wrong.importer, wrong.line, wrong.deferred) == ("house.low.x", 2, True)
    assert {part_of(one.importer) for one in wrong_ways(found, {"high": {"low"}})} == {"low"}
    assert {part_of(one.importer) for one in wrong_ways(found, {})} == {"low", "high"}  # a room that nobody has placed
    assert not wrong_ways(found, {"high": {"low"}, "low": {"high"}})


def test_a_planted_long_file_is_found(tmp_path):
    package = tree(tmp_path, a__long="\n" * 11, a__fits="\n" * 10)
    assert long_files([package], 10) == {package / "a" / "long.py": 11}
