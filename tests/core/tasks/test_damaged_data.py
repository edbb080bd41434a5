"""Binaries of another dictionary, and instance indexes of other data: said when they are loaded."""

from __future__ import annotations

import json

import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError
from gtransformer.plugin.sentences import SentenceSpan
from tests.core.tasks.loaded import load, setup


@pytest.mark.parametrize("lang", ["en", "de"])
def test_words_that_the_dictionary_has_not(corpus, lang):
    """Binarised with a larger dictionary; the language symbols and <mask> at its end are words."""
    folder = corpus(train=4)
    size = len(setup(folder).source_dictionary)
    prefix = str(folder / f"train.en-de.{lang}")
    for last, fits in ((size - 1, True), (size, False)):
        writer = MMapIndexedDatasetBuilder(f"{prefix}.bin")
        for number in range(4):
            writer.add_item(torch.tensor([0, 4, last if number == 2 else 5, 2, 2]))
        writer.finalize(f"{prefix}.idx")
        if fits:
            load(folder=folder)
            continue
        with pytest.raises(UserError, match=f"{prefix}.bin: holds the word number {size}, but dict.{lang}.txt ends at"):
            load(folder=folder)


def test_an_instance_index_with_other_counts(corpus):
    """What fairseq-generate writes would be put back in wrong places."""
    folder = corpus(test=3)
    task, dataset = load("test", folder)
    counts = [int((dataset.src[number] == task.source_dictionary.bos()).sum()) for number in range(3)]
    path = folder / "test.en-de.instances.json"
    rows = [(number, 0, count) for number, count in enumerate(counts)]
    InstanceIndex("test", "en", "de", 3, rows).save(path)
    assert dataset.spans() == [SentenceSpan(*row) for row in rows]
    value = json.loads(path.read_text())
    value["instances"][1][2] += 1
    path.write_text(json.dumps(value))
    with pytest.raises(
        UserError, match=rf"instances.json: instance 1 has {counts[1] + 1} sentences, in the data it has"
    ):
        dataset.spans()
