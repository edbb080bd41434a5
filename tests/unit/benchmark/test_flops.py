"""The operation count against PyTorch's counter of what a step really computes."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from gtransformer.benchmark.flops import matrix_rate, training_operations
from gtransformer.benchmark.systems import Setting, System
from gtransformer.modules.linear import onednn_is_faster


@pytest.mark.parametrize("context", [0, 2])
@pytest.mark.parametrize("system", ["fairseq", "dense", "packed"])
def test_operations_of_a_step(system, context, monkeypatch):
    monkeypatch.setenv("GTRANSFORMER_ONEDNN", "0")  # PyTorch's counter does not know oneDNN's layer
    onednn_is_faster.cache_clear()
    # Short documents: both halves of causal attention are computed, and the counter leaves out attention on the CPU.
    # (A batch of 250 tokens has 15 such documents.)
    setting = Setting(system, 16, 250, context, arch="gtransformer_tiny", vocabulary=500, sentence=8, dropout=0.0)
    model = System(setting)
    model.train_step()
    with FlopCounterMode(display=False) as counter:
        model.train_step()
    onednn_is_faster.cache_clear()
    assert 0.9 < counter.get_total_flops() / training_operations(setting) < 1.1


def test_matrix_rate():
    rate = matrix_rate("cpu", "float32", size=256, seconds=0.05)
    x = torch.randn(256, 512)
    assert rate > 1e8 and x.shape == (256, 512)
