"""The shell scripts: strict mode everywhere, and what set-up says and does without installing anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_link_to_a_script_works(tmp_path: Path):
    """As in a folder of the user's PATH; of one that calls others of its folder, too."""
    (tmp_path / "ted").symlink_to(ROOT / "scripts" / "ted.sh")
    done = bash(str(tmp_path / "ted"), GTRANSFORMER_VENV=sys.prefix, DATA=str(tmp_path))
    assert "no such directory; fetch the corpus" in done.stderr


def test_a_check_on_a_gpu_without_network_uses_the_python_there(tmp_path: Path):
    """And the wheels that were carried along, installed once."""
    pack, python, log = tmp_path / "pack", tmp_path / "python", tmp_path / "log"
    (pack / "wheels").mkdir(parents=True)
    (pack / "wheels" / "one.whl").touch()
    python.write_text(f'#!/bin/sh\necho "$PYTHONPATH|$*" >>{log}\n')
    python.chmod(0o755)
    script, options = str(ROOT / "scripts" / "gpu_check.sh"), {"PYTHON": str(python), "PYTHONPATH": ""}
    for _ in range(2):
        assert bash(script, "--rehearse", GPU_PACK=str(pack), **options).returncode == 0
    install, *checks = log.read_text().splitlines()
    assert "-m pip install -q --no-index --no-deps " in install and install.endswith(f" {pack}/wheels/one.whl")
    assert checks == [f"{ROOT}:{pack}/site|-m gtransformer lab gpu-check --rehearse"] * 2
    assert bash(script, GPU_PACK=str(tmp_path), **options).returncode == 1


def one_error(result: subprocess.CompletedProcess, *words: str) -> None:
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and all(word in line for word in words), line


def test_setup_refuses_an_unusable_python(tmp_path: Path):
    result = bash(
        str(ROOT / "scripts/setup.sh"), PYTHON=shutil.which("false"), GTRANSFORMER_VENV=str(tmp_path / "venv")
    )
    one_error(result, "PYTHON=", "Python 3.11, 3.12 or 3.13")
    assert not (tmp_path / "venv").exists()


def test_an_environment_belongs_to_one_checkout(tmp_path: Path):
    venv, other = tmp_path / "venv", tmp_path / "other"
    venv.mkdir()
    (other / "gtransformer").mkdir(parents=True)
    (venv / "checkout").write_text(f"{other}\n")
    result = bash(str(ROOT / "scripts/setup.sh"), GTRANSFORMER_VENV=str(venv))
    one_error(result, f"{venv} belongs to the checkout {other}", "GTRANSFORMER_VENV")
    assert [path.name for path in venv.iterdir()] == ["checkout"]


def test_setup_says_what_to_install_where_no_python_fits(tmp_path: Path):
    """With a PATH of everything but Python."""
    tools = ("bash", "cat", "cut", "dirname", "readlink", "sed", "sha256sum", "ls", "env", "tail")
    for tool in tools:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    result = bash(
        str(ROOT / "scripts/setup.sh"), PATH=str(tmp_path), PYTHON="", GTRANSFORMER_VENV=str(tmp_path / "venv")
    )
    one_error(result, "no usable Python found", "python3.11-venv")


def test_setup_leaves_foreign_directories_alone(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("mine")
    result = bash(str(ROOT / "scripts/setup.sh"), PYTHON=sys.executable, GTRANSFORMER_VENV=str(tmp_path))
    one_error(result, "is not a virtual environment", "GTRANSFORMER_VENV")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


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
