"""The operation count against PyTorch's counter of what a step really computes."""

from itertools import product as product_of
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from gtransformer.lab.benchmark import flops
from gtransformer.lab.benchmark.flops import matrix_rate, training_operations
from gtransformer.lab.benchmark.systems import BESIDE, OTHERS, Setting, System
from gtransformer.modules.linear import onednn_is_faster, product


@pytest.mark.parametrize(
    ("system", "context"),
    [*product_of(("fairseq", "dense", "packed"), (0, 2)), *product_of(OTHERS, (0,))],
)
def test_operations_of_a_step(system, context, monkeypatch):
    monkeypatch.setenv("GTRANSFORMER_ONEDNN", "0")  # PyTorch's counter does not know oneDNN's layer
    onednn_is_faster.cache_clear()
    # Short documents: both halves of causal attention are computed, and the counter leaves out attention on the CPU.
    # (A batch of 250 tokens has 15 such documents.)
    sentence = 16 if system == BESIDE else 8
    setting = Setting(
        system, 16, 250, context, arch="gtransformer_mini", vocabulary=500, sentence=sentence, dropout=0.0
    )
    model = System(setting)
    model.train_step()
    with FlopCounterMode(display=False) as counter:
        model.train_step()
    onednn_is_faster.cache_clear()
    assert 0.9 < counter.get_total_flops() / training_operations(setting) < 1.1


def test_matrix_rate(monkeypatch):
    """The fastest product counts, with the operations of what is really multiplied; on a clock that is set here."""
    clock, pauses, operations = [10.0], iter([2.0, 0.5, 1.0]), set()

    def counted(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        operations.add(2.0 * x.shape[0] * weight.numel())
        clock[0] += next(pauses)
        return product(x, weight)

    monkeypatch.setattr(flops, "product", counted)
    monkeypatch.setattr(flops, "now", lambda device: clock[0])
    monkeypatch.setattr(flops, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    rate = matrix_rate("cpu", "float32", size=32, seconds=3.0)
    assert next(pauses, None) is None, "as many as fit into the time"
    assert {rate} == {count / 0.5 for count in operations}
