"""The wheel is complete; its version stands everywhere; its requirements are ranges."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module

import pytest
import yaml

from gtransformer.cli.commands import COMMANDS, module_of
from tests.support import ROOT

pytestmark = pytest.mark.slow

SOURCES = (
    "gtransformer",
    "configs",
    "requirements",
    "setup.py",
    "pyproject.toml",
    "LICENSE",
    "README.md",
)


def test_the_wheel(tmp_path):
    """Modules, recipes and data, and nothing else; it is built in a copy, because building writes
    into the tree.
    """
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        ".",
    ]
    done = subprocess.run(pip, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.whl")
    archive = zipfile.ZipFile(path)
    names = set(archive.namelist())
    modules = {str(module.relative_to(ROOT)) for module in (ROOT / "gtransformer").rglob("*.py")}
    recipes = {
        f"gtransformer/{one.relative_to(ROOT)}"
        for one in (ROOT / "configs").rglob("*")
        if one.is_file()
    }
    data = {
        "gtransformer/py.typed",
        "gtransformer/lab/demo/corpus.tar.xz",
        "gtransformer/configs/base.yaml",
    }
    assert modules | recipes | data <= names
    (information,) = {name.split("/")[0] for name in names} - {"gtransformer"}
    assert any(re.fullmatch(rf"{information}/(licenses/)?LICENSE", name) for name in names)
    assert (
        "gtransformer = gtransformer.cli.main:main"
        in archive.read(f"{information}/entry_points.txt").decode()
    )

    metadata = archive.read(f"{information}/METADATA").decode()
    requirements = re.findall(r"^Requires-Dist: (.+)$", metadata, flags=re.MULTILINE)
    assert len(requirements) > 10
    assert not [line for line in requirements if "<" not in line and "==" not in line]
    assert not [line for line in requirements if re.match(r"fairseq\b(?!-)", line)]

    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (
        re.search(r"^## (\S+)", changes, re.MULTILINE)[1]
        == str(citation["version"])
        == path.name.split("-")[1]
    )


def test_every_command_has_a_main():
    assert all(
        callable(import_module(f"gtransformer.{module_of(command)}").main) for command in COMMANDS
    )
