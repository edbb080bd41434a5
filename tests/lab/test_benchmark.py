"""The count of kernels of a compiled update."""

from gtransformer.lab.benchmark.kernels import count

SIZES = (32, 64, 2, 2)  # layers with combined attention only: two modules in each block


def test_attention_is_counted_once_a_module_and_products_once_a_projection():
    found = count(2, 60, 100, SIZES)
    rows = found["kernels and gigabytes by part"]
    attention = {name: row[0] for name, row in rows.items() if "segment_attention" in name}
    modules = 2 * 2 + 2 * 2 * 2  # two of two encoder layers; self- and cross-attention
    assert list(attention.values()) == [modules, modules]
    # query, key and value of self-attention are one product, key and value of cross-attention one
    projections = (8 + 4 * 2) + modules + 6 + 2 * 4  # and output, gates, feed-forward
    assert rows["forward, aten.addmm.out"][0] == projections
    assert found["kernels"] == sum(row[0] for row in rows.values())
