"""A binarised corpus, made in process."""

import random

import pytest

from tests.core.plugin import loaded
from tests.support import random_document, random_lengths, write_binary


@pytest.fixture
def corpus(tmp_path, dictionary):
    """make(split=instances, ...): a data directory with binarised random pairs, as
    fairseq-preprocess writes them.
    """

    def make(sides=("en", "de"), **splits):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for lang in ("en", "de"):
            dictionary.save(str(folder / f"dict.{lang}.txt"))
        draw = random.Random(3)
        for split, count in splits.items():
            shapes = [random_lengths(draw, draw.randint(1, 4), 4) for _ in range(count)]
            for lang in sides:
                rows = ([*random_document(draw, dictionary, s), dictionary.eos()] for s in shapes)
                write_binary(folder / f"{split}.en-de.{lang}", rows, len(dictionary))
        return folder

    return make


@pytest.fixture(autouse=True)
def end_workers():
    yield
    loaded.end_workers()
