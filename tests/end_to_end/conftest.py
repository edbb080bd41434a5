"""A corpus whose target repeats its source, and a model that has learned to copy it; made once for all tests."""

from pathlib import Path

import pytest

from tests.end_to_end import raw_corpus
from tests.end_to_end.commands import SMALL, TRAINING, Copier, binarise, run, write_copy_corpus


@pytest.fixture(scope="session")
def copy_corpus(tmp_path_factory):
    """A folder with text files and ``bin``, binarised with two worker processes."""
    folder = tmp_path_factory.mktemp("copy")
    write_copy_corpus(folder, words=16, train=3000, valid=20, test=20)
    binarise(folder)
    return folder


@pytest.fixture(scope="session")
def copier(copy_corpus):
    """A model that copies: checkpoint, its corpus, and the log of its training."""
    save = copy_corpus / "copier"
    output = run(
        "train", copy_corpus / "bin", *TRAINING, *SMALL, "--max-tokens=600", "--lr=0.004", "--warmup-updates=30",
        "--lr-scheduler=polynomial_decay", "--total-num-update=600", "--max-update=600", f"--save-dir={save}",
        "--no-epoch-checkpoints", "--adam-betas=(0.9, 0.98)", "--clip-norm=1",
    )  # fmt: skip
    return Copier(copy_corpus, save / "checkpoint_last.pt", output)


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
