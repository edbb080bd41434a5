"""The instance index file, and what joining refuses."""

from __future__ import annotations

import pytest

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError


def instance_index(instances, documents=2, dropped=()):
    return InstanceIndex("test", "en", "de", documents, list(instances), list(dropped))


def test_join_takes_any_order_of_instances_and_any_kind_of_sentence(tmp_path):
    """Read from its file; dropped sentences are None."""
    path = tmp_path / "test.en-de.instances.json"
    instance_index([(1, 0, 1), (0, 2, 1), (0, 0, 1)], dropped=[(0, 1), (1, 1)]).save(path)
    assert join(InstanceIndex.load(path), [[3], [2], [0]]) == [[0, None, 2], [3, None]]


@pytest.mark.parametrize("last", [(0, 2, 1), (1, 1, 1)])
def test_join_refuses_other_instances(last):
    """Of another number, or with a sentence that nothing precedes."""
    for sentences in ([["a"]], [["a"], ["c"]]):
        with pytest.raises((ValueError, KeyError)):
            join(instance_index([(0, 0, 1), last]), sentences)


@pytest.mark.parametrize("text", ["[1]", "{}", '{"split": "x", "instances": 3}'])
def test_other_json_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="x.json: not an instance index"):
        InstanceIndex.load(path)
