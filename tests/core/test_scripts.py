"""The shell scripts: strict mode everywhere, and what set-up says and does without installing anything."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import load_recipe

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "scripts").glob("*.sh"))


def bash(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", *arguments], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_strict_and_well_formed(script: Path):
    assert bash("-n", str(script)).returncode == 0
    if script.name != "common.sh":  # sourced by the others
        assert "\nset -euo pipefail\n" in script.read_text()


def one_error(result: subprocess.CompletedProcess, *words: str) -> None:
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and all(word in line for word in words), line


def test_an_environment_belongs_to_one_checkout(tmp_path: Path):
    venv, other = tmp_path / "venv", tmp_path / "other"
    venv.mkdir()
    (other / "gtransformer").mkdir(parents=True)
    (venv / "checkout").write_text(f"{other}\n")
    result = bash(str(ROOT / "scripts/setup.sh"), GTRANSFORMER_VENV=str(venv))
    one_error(result, f"{venv} belongs to the checkout {other}", "GTRANSFORMER_VENV")
    assert [path.name for path in venv.iterdir()] == ["checkout"]


def make_environment(path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True, timeout=120)
    return next(path.glob("lib/python*/site-packages"))


def test_setup_refuses_plain_fairseq(tmp_path: Path):
    site = make_environment(tmp_path / "venv")
    distribution = site / "fairseq-0.12.2.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: fairseq\nVersion: 0.12.2\n")
    result = bash(str(ROOT / "scripts/setup.sh"), GTRANSFORMER_VENV=str(tmp_path / "venv"), PYTHON="")
    one_error(result, "'fairseq'", "pip uninstall")


def test_finished_setup_is_recognised_at_once_and_a_changed_one_is_not(tmp_path: Path):
    """At once: Python is not even started, and nothing is written."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(f"#!/bin/sh\ntouch '{tmp_path}/started'\nexit 1\n")
    python.chmod(0o755)
    common = str(ROOT / "scripts/common.sh")
    stamp = bash("-c", f"source {common}; setup_fingerprint").stdout
    (tmp_path / "setup.stamp").write_text(stamp)
    result = bash(str(ROOT / "scripts/setup.sh"), GTRANSFORMER_VENV=str(tmp_path), PYTHON="")
    assert result.returncode == 0 and "is complete" in result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "setup.stamp"}
    changed = bash(
        "-c", f"source {common}; setup_complete", GTRANSFORMER_VENV=str(tmp_path), GTRANSFORMER_TORCH="torch==2.8.*"
    )
    assert changed.returncode == 1


def test_train_has_the_flags_of_the_base_recipe():
    text = (ROOT / "scripts" / "train.sh").read_text()
    flags = text[text.index("--task ") :].replace("\\\n", " ").replace('"${@:2}"', "")
    recipe = load_recipe("base").training()
    recipe.pop("tensorboard-logdir")
    assert shlex.split(flags) == to_arguments(recipe)
