"""The count of kernels of a compiled update."""

import pytest

from gtransformer.lab.benchmark.batches import BASE
from gtransformer.lab.benchmark.kernels import count


@pytest.mark.slow
def test_an_update_of_16384_tokens():
    found = count(32, 512, 32000, BASE)
    assert found["kernels"] <= 1200 and found["gigabytes"] <= 62
    rows = found["kernels and gigabytes by part"]
    attention = {name: row[0] for name, row in rows.items() if "segment_attention" in name}
    modules = 8 + 2 * 8  # combined on two of six layers; self- and cross-attention
    assert list(attention.values()) == [modules, modules]
    # query, key and value of self-attention are one product, key and value of cross-attention one
    projections = (16 + 8 * 2) + modules + 6 + 2 * 12  # and output, gates, feed-forward
    assert rows["forward, aten.addmm.out"][0] == projections
    assert found["kernels"] == sum(row[0] for row in rows.values())
