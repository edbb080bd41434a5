"""A user-dir in a process that has not imported it: known to recipes and to commands that load a model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.tasks.trained import import_user_dir
from tests.support import ROOT

RECIPE = """based-on: arena/documents
task:
  user-dir: docs/example_system/neighbours
train:
  arch: neighbours_mini
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess:
    """In a process of its own, from the checkout."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_a_recipe_is_checked_with_its_architecture(tmp_path: Path):
    """What fairseq's parser knows when it is made is all that it takes."""
    (tmp_path / "mine.yaml").write_text(RECIPE, encoding="utf-8")
    code = (
        "import sys; from gtransformer.run.recipe import load_recipe; "
        "from gtransformer.run.recipe_check import check_recipe; "
        "check_recipe(load_recipe(sys.argv[1]), ['train', 'generate']); print('taken')"
    )
    done = run(code, str(tmp_path / "mine.yaml"))
    assert done.stdout.endswith("taken\n"), done.stderr[-2000:]


def test_a_command_is_given_the_folder():
    """It is imported for this command alone."""
    code = (
        "import sys; from gtransformer.cli.contrastive import build_parser; from fairseq.models import MODEL_REGISTRY; "
        "n = sys.argv.index('--user-dir'); build_parser().parse_args(sys.argv[1:n]); "
        "print('neighbours' in MODEL_REGISTRY); "
        "build_parser().parse_args(sys.argv[1:]); print('neighbours' in MODEL_REGISTRY)"
    )
    options = ["prepared", "--path", "x.pt", "--items", "x.json", "--output", "x.json"]
    done = run(code, *options, "--user-dir", "docs/example_system/neighbours")
    assert done.stdout.endswith("False\nTrue\n"), done.stderr[-2000:]


def test_what_cannot_be_imported(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # fairseq puts the folder around the user-dir in front
    import_user_dir(None)
    with pytest.raises(UserError, match="--user-dir .*nowhere: no __init__.py there; give the folder that"):
        import_user_dir(tmp_path / "nowhere")
    for name, code, said in (
        ("lacking_something", "import there_is_no_such_package", "ModuleNotFoundError: No module named 'there_is"),
        ("misspelt", "def:", "SyntaxError"),
        ("reading", "open('not-there')", "FileNotFoundError"),
        ("types", "", "AttributeError"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text(code + "\n", encoding="utf-8")
        for _ in range(2):
            with pytest.raises(UserError, match=f"{name}: cannot be imported: {said}.*; fix it, or rename the folder"):
                import_user_dir(folder)
    (tmp_path / "misspelt" / "__init__.py").write_text("", encoding="utf-8")
    import_user_dir(tmp_path / "misspelt")
