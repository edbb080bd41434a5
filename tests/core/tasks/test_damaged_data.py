"""Binaries that were cut short, and instance indexes of other data: said when they are loaded, with the file's name."""

from __future__ import annotations

import json
import struct

import pytest
import torch
from fairseq.data.indexed_dataset import IndexedDatasetBuilder, MMapIndexedDatasetBuilder

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.sentences import SentenceSpan
from gtransformer.data.stored import check_binary
from gtransformer.errors import UserError
from tests.core.tasks.loaded import load, setup

HEAD = 26  # bytes before the lengths


@pytest.mark.parametrize(
    ("end", "change", "message"),
    [
        ("idx", lambda old: b"", "idx: cut short or damaged"),
        ("idx", lambda old: old[:5], "idx: cut short or damaged"),
        ("idx", lambda old: old[: HEAD - 1], "idx: cut short or damaged"),
        ("idx", lambda old: old[: HEAD + 6], "idx: cut short or damaged"),
        ("idx", lambda old: old[:-8], "idx: cut short or damaged"),
        ("idx", lambda old: b"text" + old, "idx: cut short or damaged"),
        ("idx", lambda old: old[:9] + struct.pack("<Q", 7) + old[17:], "idx: cut short or damaged"),
        ("idx", lambda old: old[:17] + b"\x63" + old[18:], "idx: cut short or damaged"),
        ("idx", lambda old: old[:HEAD] + struct.pack("<i", -3) + old[HEAD + 4 :], "idx: cut short or damaged"),
        ("bin", lambda old: b"", "bin: has 0 bytes, but "),
        ("bin", lambda old: old[:-4], "bin: has .* bytes, but "),
        ("bin", lambda old: old + b"\0", "bin: has .* bytes, but "),
        ("bin", None, "bin: no such file"),
    ],
)
def test_binaries_that_are_not_whole(corpus, end, change, message):
    folder = corpus(train=4)
    path = folder / f"train.en-de.de.{end}"
    path.write_bytes(change(path.read_bytes())) if change else path.unlink()
    with pytest.raises(UserError, match=f"{folder}/train.en-de.de.{message}"):
        load(folder=folder)


def test_instances_that_are_all_empty(tmp_path):
    """numpy maps no empty file."""
    builder = MMapIndexedDatasetBuilder(str(tmp_path / "x.bin"))
    for _ in range(2):
        builder.add_item(torch.tensor([]))
    builder.finalize(str(tmp_path / "x.idx"))
    with pytest.raises(UserError, match=r"x\.bin: all of its 2 instances are empty; prepare the corpus again$"):
        check_binary(tmp_path / "x")


def test_another_layout_of_fairseqs(corpus):
    """What was written before there were memory-mapped binaries."""
    folder = corpus(train=1)
    older = IndexedDatasetBuilder(f"{folder}/train.en-de.en.bin")
    older.add_item(torch.tensor([0, 4, 2]))
    older.finalize(f"{folder}/train.en-de.en.idx")
    with pytest.raises(UserError, match=r"train.en-de.en.idx: .* not memory-mapped, .*; prepare the corpus again"):
        load(folder=folder)


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
