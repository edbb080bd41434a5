"""Projections around attention, and the gate."""

import pytest
import torch
from fairseq.modules import MultiheadAttention as FairseqAttention

from gtransformer.modules.attention import MultiheadAttention
from tests.support import make_local_or_global, ragged, relative_error


@pytest.mark.parametrize("engine", ["dense", "packed"])
def test_global_attention_is_pytorchs_multihead_attention(engine):
    ours = MultiheadAttention(12, 3).double()
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for name in ("weight", "bias"):
            parts = [getattr(getattr(ours, f"{x}_proj"), name) for x in "qkv"]
            getattr(theirs, f"in_proj_{name}").copy_(torch.cat(parts))
            getattr(theirs.out_proj, name).copy_(getattr(ours.out_proj, name))
    layout = ragged([[1] * 7])
    x = torch.randn(7, 12, dtype=torch.float64)
    found = ours(x, x, make_local_or_global(engine, layout, layout, local=False, causal=False))
    expected, _ = theirs(x.unsqueeze(0), x.unsqueeze(0), x.unsqueeze(0))
    assert relative_error(found, expected[0]) < 1e-12


@pytest.mark.parametrize("memory_channels", [8, 6])
def test_parameters_begin_as_fairseqs(memory_channels):
    """The same draws for the same seed."""
    torch.manual_seed(3)
    theirs = FairseqAttention(8, 2, kdim=memory_channels, vdim=memory_channels, encoder_decoder_attention=True)
    torch.manual_seed(3)
    ours = MultiheadAttention(8, 2, memory_channels=memory_channels).state_dict()
    assert all(value.equal(ours[name]) for name, value in theirs.state_dict().items())


def test_heads_must_divide_channels():
    with pytest.raises(ValueError, match="5 attention heads do not divide the model dimension 12"):
        MultiheadAttention(12, 5)


@pytest.mark.parametrize("engine", ["dense", "packed", "banded"])
def test_all_parameters_have_a_gradient_where_nobody_sees_anything(engine):
    """Else a process of a distributed training would have fewer gradients than the others."""
    module = MultiheadAttention(8, 2)
    queries, keys = ragged([[1, 1]]), ragged([[2, 2, 2]])
    found = module(torch.randn(2, 8), torch.randn(3, 8), make_local_or_global(engine, queries, keys, True, False))
    assert torch.equal(found, module.out_proj.bias.expand(2, 8))
    found.sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
    assert module.q_proj.weight.grad.eq(0).all() and module.v_proj.weight.grad.eq(0).all()
