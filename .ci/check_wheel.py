"""Build the wheel and check that it is complete: modules, recipes, data, version, requirements.

Called by ``.ci/run`` with the environment's Python. It builds in a copy, because building writes
into the tree.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("gtransformer", "configs", "requirements", "setup.py", "pyproject.toml", "LICENSE",
           "README.md")  # fmt: skip
DATA = {"gtransformer/py.typed", "gtransformer/lab/demo/corpus.tar.xz"}


def need(condition: object, text: str) -> None:
    """End this check where a condition does not hold."""
    if not condition:
        raise SystemExit(f"check failed: {text}")


def build(work: Path) -> Path:
    """Return the wheel of a copy of the sources."""
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, work / name)
    pip = "-m pip wheel -q --no-deps --no-build-isolation --no-index ."
    subprocess.run([sys.executable, *pip.split()], cwd=work, check=True, timeout=300)
    (path,) = work.glob("*.whl")
    return path


def main() -> None:
    """Raise SystemExit with a message if something is missing."""
    with tempfile.TemporaryDirectory() as work:
        path = build(Path(work))
        archive = zipfile.ZipFile(path)
        names = set(archive.namelist())
        wanted = {str(one.relative_to(ROOT)) for one in (ROOT / "gtransformer").rglob("*.py")}
        for one in (ROOT / "configs").rglob("*"):
            if one.is_file():
                wanted.add(f"gtransformer/{one.relative_to(ROOT)}")
        need(wanted | DATA <= names, f"the wheel lacks {sorted((wanted | DATA) - names)}")
        (about,) = {name.split("/")[0] for name in names} - {"gtransformer"}
        need(any(name.startswith(f"{about}/") and name.endswith("LICENSE") for name in names),
             "no licence")  # fmt: skip
        entry = archive.read(f"{about}/entry_points.txt").decode()
        need("gtransformer = gtransformer.cli.main:main" in entry, "no command gtransformer")
        metadata = archive.read(f"{about}/METADATA").decode()
    requirements = re.findall(r"^Requires-Dist: (.+)$", metadata, flags=re.MULTILINE)
    need(len(requirements) > 10, "few requirements")
    for line in requirements:
        need("<" in line or "==" in line, f"{line} has no upper limit")
        need(not re.match(r"fairseq\b(?!-)", line), f"{line} must not be installed")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    versions = {
        path.name.split("-")[1],
        str(citation["version"]),
        re.search(r"^## (\S+)", changes, re.MULTILINE)[1],
    }
    need(len(versions) == 1, f"one version, not {versions}")
    print(f"{path.name} is complete")


main()
