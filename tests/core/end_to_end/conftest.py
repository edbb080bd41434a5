"""Corpora that several modules use."""

from pathlib import Path

import pytest

from tests import raw_corpus
from tests.commands import binarise, write_copy_corpus


@pytest.fixture(scope="session")
def copy_corpus(tmp_path_factory) -> Path:
    """A corpus whose target repeats its source: text files and ``bin``."""
    folder = tmp_path_factory.mktemp("copy")
    write_copy_corpus(folder, words=16, train=3000, valid=20, test=20)
    binarise(folder)
    return folder


@pytest.fixture(scope="session")
def raw(tmp_path_factory) -> Path:
    """A raw corpus, with mistakes that preparing mends."""
    return raw_corpus.make_raw(
        tmp_path_factory.mktemp("corpus") / "raw", {"train": 60, "dev": 6, "test": 7}
    )


@pytest.fixture(scope="session")
def prepared(raw) -> Path:
    """That corpus, prepared; it lies beside it."""
    output = raw.parent / "prepared"
    raw_corpus.run(raw, output)
    return output
