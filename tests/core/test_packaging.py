"""The wheel: complete, and usable as ``--user-dir gtransformer`` wherever it is installed beside fairseq.

And the source distribution: it has the tests and what they compare with, which the wheel has not.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

from gtransformer.cli.commands import COMMANDS, module_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "gtransformer", "configs", "requirements", "setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md",
    "CHANGELOG.md", "CITATION.cff", "Dockerfile", ".dockerignore", "tests", "scripts", "docs", "exp_logs", ".ci",
)  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the checkout, because building writes into the tree."""
    copy = tmp_path_factory.mktemp("packaging") / "tree"
    for name in SOURCES:
        source, target = ROOT / name, copy / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return copy


def build(command: list[str], tree: Path) -> None:
    result = subprocess.run([sys.executable, *command], cwd=tree, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    build(["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", "..", "."], tree)
    (path,) = tree.parent.glob("gtransformer-*.whl")
    return path


def test_the_source_distribution_has_the_tests_and_what_they_read(tree: Path):
    """Above all the numbers of the authors' release, so that everybody's test run compares with them."""
    build(["setup.py", "-q", "sdist", "--dist-dir", ".."], tree)
    (path,) = tree.parent.glob("gtransformer-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("configs", "docs", "exp_logs", "scripts", "tests")
    wanted = {path.relative_to(tree).as_posix() for name in folders for path in (tree / name).rglob("*")}
    assert {"tests/parity/full.npz", "tests/parity/search/nbest.json", "tests/parity/README.md"} <= wanted
    assert wanted | {"CHANGELOG.md", "CITATION.cff", "Dockerfile", ".dockerignore"} <= names


def test_every_module_is_in_the_wheel(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "gtransformer").rglob("*.py")}
    assert modules <= names, "a directory without __init__.py is not packaged"
    assert {"gtransformer/py.typed", "gtransformer/lab/demo/corpus.tar.xz"} <= names
    (other,) = {name.split("/")[0] for name in names} - {"gtransformer"}
    assert other.endswith(".dist-info"), "tests, scripts or results are in the wheel"


def test_recipes_and_licence_are_in_the_wheel(wheel: Path):
    """The recipes in the package, so that they are found however it is installed."""
    names = zipfile.ZipFile(wheel).namelist()
    configs = {f"gtransformer/{path.relative_to(ROOT)}" for path in (ROOT / "configs").rglob("*") if path.is_file()}
    assert "gtransformer/configs/base.yaml" in configs and configs <= set(names)
    assert any(re.search(r"dist-info/(licenses/)?LICENSE$", name) for name in names)


def test_every_command_has_a_main(wheel: Path):
    archive = zipfile.ZipFile(wheel)
    (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    parser = ConfigParser()
    parser.read_string(archive.read(entry_points).decode())
    assert dict(parser["console_scripts"]) == {"gtransformer": "gtransformer.cli.main:main"}
    for command in COMMANDS:
        tree = ast.parse(archive.read(f"gtransformer/{module_of(command).replace('.', '/')}.py"))
        assert "main" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, command


def test_requirements_are_ranges(wheel: Path):
    """Every dependency has an upper bound or an exact version, and plain fairseq is none of them."""
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
    text = archive.read(metadata).decode()
    requirements = re.findall(r"^Requires-Dist: (.+)$", text, flags=re.MULTILINE)
    assert len(requirements) > 10
    assert not [line for line in requirements if "<" not in line and "==" not in line]
    assert not [line for line in requirements if re.match(r"fairseq\b(?!-)", line)]


def test_the_version_is_the_same_everywhere(wheel: Path):
    """In the wheel's name, as the first one of the list of changes, and where it is cited."""
    version = wheel.name.split("-")[1]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1] == str(citation["version"]) == version


@pytest.mark.slow
def test_user_dir_when_installed(wheel: Path, tmp_path: Path):
    """From a foreign directory, ``--user-dir gtransformer`` is the installed package, in spawned processes, too."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    fairseq = Path(importlib.util.find_spec("fairseq").origin).parent
    # fairseq looks for the user-dir beside itself, so it has to lie there; its examples are large and not needed.
    shutil.copytree(fairseq, site / "fairseq", ignore=shutil.ignore_patterns("examples"))
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(
        """
import multiprocessing
from argparse import Namespace
from pathlib import Path

def registered(_):
    from fairseq import models, tasks, utils
    utils.import_user_module(Namespace(user_dir="gtransformer"))
    import gtransformer
    return (str(Path(gtransformer.__file__).resolve().parent), "translation_doc" in tasks.TASK_REGISTRY,
            "gtransformer_base" in models.ARCH_MODEL_REGISTRY)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(registered(0) == pool.map(registered, [0])[0], *registered(0))
"""
    )
    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=script.parent,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert result.stdout.split() == ["True", str(site / "gtransformer"), "True", "True"], result.stderr


@pytest.mark.slow
def test_user_dir_from_the_environment_of_a_checkout(tmp_path: Path):
    """fairseq finds the package by its name from every directory, and it is the checkout's."""
    line = [sys.executable, "-m", "fairseq_cli.generate", "nowhere", "--user-dir", "gtransformer", "--path", "x.pt"]
    line += ["--task", "translation_doc", "--source-lang", "en", "--target-lang", "de"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert "error: nowhere: no such data directory" in done.stderr and "Traceback" not in done.stderr
