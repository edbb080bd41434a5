"""Projections around attention, and the gate."""

import pytest
import torch
from fairseq.modules import MultiheadAttention as FairseqAttention
from torch.nn import functional

from gtransformer.modules.attention import Gate, MultiheadAttention, mixed
from tests.support import make_local_or_global, ragged


@pytest.mark.parametrize("memory_channels", [8, 6])
def test_parameters_begin_as_fairseqs(memory_channels):
    """The same draws for the same seed."""
    torch.manual_seed(3)
    theirs = FairseqAttention(
        8, 2, kdim=memory_channels, vdim=memory_channels, encoder_decoder_attention=True
    )
    torch.manual_seed(3)
    ours = MultiheadAttention(8, 2, memory_channels=memory_channels).state_dict()
    assert all(value.equal(ours[name]) for name, value in theirs.state_dict().items())


@pytest.mark.parametrize("engine", ["dense", "packed"])
def test_all_parameters_have_a_gradient_where_nobody_sees_anything(engine):
    """Else a process of a distributed training would have fewer gradients than the others."""
    module = MultiheadAttention(8, 2)
    queries, keys = ragged([[1, 1]]), ragged([[2, 2, 2]])
    found = module(
        torch.randn(2, 8),
        torch.randn(3, 8),
        make_local_or_global(engine, queries, keys, True, False),
    )
    assert torch.equal(found, module.out_proj.bias.expand(2, 8))
    found.sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
    assert module.q_proj.weight.grad.eq(0).all() and module.v_proj.weight.grad.eq(0).all()


def gated_sum(gate, local, global_):
    return mixed(gate(torch.cat([local, global_], dim=-1)), local, global_)


def test_gate_is_equation_10():
    gate = Gate(4)
    local, global_ = torch.randn(3, 4), torch.randn(3, 4)
    g = torch.sigmoid(
        functional.linear(torch.cat([local, global_], 1), gate[0].weight, gate[0].bias)
    )
    assert torch.allclose(gated_sum(gate, local, global_), g * local + (1 - g) * global_)
    with torch.no_grad():
        gate[0].bias.fill_(1e4)
    assert torch.equal(gated_sum(gate, local, global_), local)


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_gates_begin_as_in_the_release(bias):
    """Glorot: uniform up to sqrt(6 / (inputs + outputs)); the bias is zero unless another one is
    given.
    """
    gate, bound = Gate(64, bias), (6 / (2 * 64 + 64)) ** 0.5
    largest = gate[0].weight.abs().max().item()
    assert 0.99 * bound < largest <= bound
    assert gate[0].weight.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    assert gate[0].bias.eq(bias).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_gate_that_is_nearly_shut_learns_in_half_precision(dtype):
    """In these types the sigmoid of 9 is exactly 1, and what is behind it would have no
    gradient.
    """
    assert torch.sigmoid(torch.tensor(9.0, dtype=dtype)) == 1
    gate = Gate(4, 9.0).to(dtype)
    local, global_ = torch.randn(2, 3, 4).to(dtype).unbind()
    global_.requires_grad_()
    found = gated_sum(gate, local, global_)
    assert found.dtype == dtype and torch.allclose(found, local, atol=0.01)
    found.float().sum().backward()
    assert gate[0].bias.grad.ne(0).all() and global_.grad.ne(0).all()
