"""A corpus whose target repeats its source, and a model that has learned to copy it; made once for all tests.

Once also where several processes (pytest-xdist) share the tests: in this run's own temporary folder, which none of an
earlier run is in, under a lock.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import raw_corpus
from tests.commands import SMALL, TRAINING, Copier, binarise, run, short_training, write_copy_corpus


def made_once(tmp_path_factory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first process to ask for it fills; others wait. If filling fails, the next one tries."""
    base = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        base = base.parent  # common to this run's processes
    folder = base / name
    with open(base / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            (folder / "made").touch()
    return folder


@pytest.fixture(scope="session")
def copy_corpus(tmp_path_factory):
    """A folder with text files and ``bin``, binarised with two worker processes."""

    def make(folder: Path) -> None:
        write_copy_corpus(folder, words=16, train=3000, valid=20, test=20)
        binarise(folder)

    return made_once(tmp_path_factory, "copy", make)


@pytest.fixture(scope="session")
def copier(tmp_path_factory):
    """A model that copies: checkpoint, its corpus, and the log of its training."""
    folder = made_once(tmp_path_factory, "copier", train_copier)
    return Copier(folder, folder / "checkpoint_last.pt", (folder / "train.log").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def undisturbed_training(copy_corpus, tmp_path_factory):
    """``short_training`` in one go, which interrupted ones are compared with."""

    def make(folder: Path) -> None:
        (folder / "train.log").write_text(run(*short_training(copy_corpus, folder)), encoding="utf-8")

    folder = made_once(tmp_path_factory, "undisturbed", make)
    return Copier(copy_corpus, folder / "checkpoint_last.pt", (folder / "train.log").read_text(encoding="utf-8"))


def train_copier(folder: Path) -> None:
    write_copy_corpus(folder, words=8, most=3, train=3000, valid=20, test=20)
    binarise(folder)
    output = run(
        "train", folder / "bin", *TRAINING, *SMALL, "--max-tokens=600", "--lr=0.006", "--warmup-updates=30",
        "--lr-scheduler=polynomial_decay", "--total-num-update=200", "--max-update=200", f"--save-dir={folder}",
        "--no-epoch-checkpoints", "--adam-betas=(0.9, 0.98)", "--clip-norm=1",
    )  # fmt: skip
    (folder / "train.log").write_text(output, encoding="utf-8")


@pytest.fixture(scope="session")
def raw(tmp_path_factory) -> Path:
    """A raw corpus, with mistakes that preparing mends."""
    return raw_corpus.make_raw(tmp_path_factory.mktemp("corpus") / "raw", {"train": 60, "dev": 6, "test": 7})


@pytest.fixture(scope="session")
def prepared(raw) -> Path:
    """That corpus, prepared; it lies beside it."""
    output = raw.parent / "prepared"
    raw_corpus.run(raw, output)
    return output
