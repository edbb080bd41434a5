"""A binarised corpus, made in process."""

import random

import pytest
import torch
from fairseq.data import indexed_dataset

from tests.core.plugin import loaded
from tests.support import random_document, random_lengths


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
                prefix = str(folder / f"{split}.en-de.{lang}")
                builder = indexed_dataset.make_builder(
                    prefix + ".bin", "mmap", vocab_size=len(dictionary)
                )
                for shape in shapes:
                    line = [*random_document(draw, dictionary, shape), dictionary.eos()]
                    builder.add_item(torch.tensor(line, dtype=torch.int32))
                builder.finalize(prefix + ".idx")
        return folder

    return make


@pytest.fixture(autouse=True)
def end_workers():
    yield
    loaded.end_workers()
