"""Binaries of another dictionary, and instance indexes of other data: said when they are loaded."""

from __future__ import annotations

import pytest

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from tests.core.plugin.loaded import load


def test_an_instance_index_with_other_counts(corpus):
    """What fairseq-generate writes would be put back in wrong places."""
    folder = corpus(test=3)
    task, dataset = load("test", folder)
    counts = [
        int((dataset.src[number] == task.source_dictionary.bos()).sum()) for number in range(3)
    ]
    path = folder / "test.en-de.instances.json"
    rows = [(number, 0, count) for number, count in enumerate(counts)]
    InstanceIndex("test", "en", "de", 3, rows).save(path)
    assert load("test", folder)[1].spans[:, :3].tolist() == [list(row) for row in rows]
    value = read_json(path)
    value["instances"][1][2] += 1
    write_json(path, value)
    with pytest.raises(UserError, match="instances.json: describes other instances"):
        load("test", folder)
