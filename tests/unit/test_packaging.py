"""The wheel: complete, and usable as ``--user-dir gtransformer`` wherever it is installed beside fairseq."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("gtransformer", "configs", "requirements", "setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, because building writes into the tree."""
    work = tmp_path_factory.mktemp("packaging")
    for name in SOURCES:
        source, target = ROOT / name, work / "tree" / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w"]
    result = subprocess.run([*command, str(work), str(work / "tree")], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    (path,) = work.glob("gtransformer-*.whl")
    return path


def test_every_module_is_in_the_wheel(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "gtransformer").rglob("*.py")}
    assert modules <= names, "a directory without __init__.py is not packaged"
    assert not [name for name in names if name.startswith(("tests", "scripts"))]


def test_recipes_and_licence_are_in_the_wheel(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    configs = [path for path in (ROOT / "configs").rglob("*") if path.is_file()]
    assert configs
    for path in configs:
        assert any(name.endswith(f"share/gtransformer/{path.relative_to(ROOT)}") for name in names), path
    assert any(re.search(r"dist-info/(licenses/)?LICENSE$", name) for name in names)


def test_every_command_has_a_main(wheel: Path):
    archive = zipfile.ZipFile(wheel)
    (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    parser = ConfigParser()
    parser.read_string(archive.read(entry_points).decode())
    commands = dict(parser["console_scripts"])
    assert {"gtransformer-prepare", "gtransformer-score", "gtransformer-run", "gtransformer-download"} <= set(commands)
    for target in commands.values():
        module, function = target.split(":")
        tree = ast.parse(archive.read(module.replace(".", "/") + ".py"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, target


def test_requirements_are_ranges(wheel: Path):
    """Every dependency has an upper bound or an exact version, and plain fairseq is none of them."""
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
    text = archive.read(metadata).decode()
    requirements = re.findall(r"^Requires-Dist: (.+)$", text, flags=re.MULTILINE)
    assert len(requirements) > 10
    assert not [line for line in requirements if "<" not in line and "==" not in line]
    assert not [line for line in requirements if re.match(r"fairseq\b(?!-)", line)]
    assert re.search(r"^Requires-Python: .*>=3\.11", text, flags=re.MULTILINE)


@pytest.mark.slow
def test_user_dir_when_installed(wheel: Path, tmp_path: Path):
    """From a foreign directory, ``--user-dir gtransformer`` is the installed package, in spawned processes, too."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    fairseq = Path(importlib.util.find_spec("fairseq").origin).parent
    # fairseq looks for the user-dir beside itself, so it has to lie there; its examples are large and not needed.
    shutil.copytree(fairseq, site / "fairseq", ignore=shutil.ignore_patterns("examples", "__pycache__"))
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
        timeout=120,
    )
    assert result.stdout.split() == ["True", str(site / "gtransformer"), "True", "True"], result.stderr
