"""Instances grouped when a corpus is loaded are those that it would be prepared with."""

import numpy as np
import pytest

from tests.core.plugin import loaded
from tests.support import ROOT

PREPARED = ROOT / "tests" / "prepared"


def load(length, split, **options):
    """The task and a split of the corpus prepared at ``length`` tokens."""
    return loaded.load(split, PREPARED / f"len{length}" / "bin", **options)


def batches(task, dataset):
    """What is read in two epochs: the batches as [ids, source, decoder input, target]."""
    iterator = task.get_batch_iterator(dataset, max_tokens=100, max_positions=(1000, 1000), seed=7)
    return [[list(batch) for batch in epoch] for epoch in loaded.epochs(iterator, 2)]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize(("on_disk", "wanted"), [(48, 90), (90, 48)])
def test_grouped_greedily_is_prepared_at_that_length(on_disk, wanted, split):
    """Recipes of all lengths share a corpus: the same instances, sizes, batches and words that are
    dropped.
    """
    noise = {"doc_noise_mask": 0.3, "doc_noise_epochs": 3}
    direct = load(wanted, split, **noise)
    grouped = load(on_disk, split, instances="greedy", instance_tokens=wanted, **noise)
    assert len(load(on_disk, split)[1]) != len(direct[1])
    assert np.array_equal(grouped[1].sizes, direct[1].sizes)
    assert batches(*grouped) == batches(*direct)
    assert np.array_equal(grouped[1].spans, direct[1].spans)
    assert np.array_equal(grouped[1].spans[:, 1:3], grouped[1].spans[:, 3:])
