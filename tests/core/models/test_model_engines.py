"""The whole model: precision, dropout, activation checkpointing."""

import pytest
import torch

from tests.support import tiny_model, with_engine


def forward_and_backward(model, pairs, pad):
    model.zero_grad()
    logits, _ = model(pairs.source, None, pairs.previous)
    real = pairs.previous.ne(pad)
    weights = torch.linspace(-1, 1, logits[real].numel(), dtype=torch.float64).view_as(logits[real])
    (logits[real].double() * weights).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return logits.detach()[real], gradients


def narrow(model):
    """The model with weights as wide as training begins with (tests' models have twice that, and
    rounding grows).
    """
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(0.5)
    return model


def mean_errors(found, gradients, expected, exact_gradients):
    """Root mean square errors of the logits and of all gradients together, relative to the root
    mean square itself.
    """
    assert gradients.keys() == exact_gradients.keys()
    together, exact = (
        torch.cat([g[name].double().flatten() for name in gradients])
        for g in (gradients, exact_gradients)
    )
    return [
        float((x.double() - y).norm() / y.norm()) for x, y in ((found, expected), (together, exact))
    ]


@pytest.mark.parametrize("whole", [True, False], ids=["weights in bfloat16", "--autocast bfloat16"])
def test_in_bfloat16_packed_errs_like_dense(dictionary, make_pairs, whole):
    """Forward and backward against float64 on the same weights: at most twice the error of the
    masks, and a rounding.

    ``--autocast bfloat16`` leaves parameters and gradients in float32.
    """
    pairs = make_pairs(1, [12, 1, 4], most=12)
    model = narrow(tiny_model(dictionary, autocast="none" if whole else "bfloat16"))
    reference = narrow(tiny_model(dictionary))
    if whole:
        model, reference = model.bfloat16(), reference.bfloat16()
    expected = forward_and_backward(
        with_engine(reference.double(), "dense"), pairs, dictionary.pad()
    )
    errors = {}
    for engine in ("dense", "packed"):
        found = forward_and_backward(with_engine(model, engine), pairs, dictionary.pad())
        assert found[0].dtype == torch.bfloat16
        assert {gradient.dtype for gradient in found[1].values()} == {
            torch.bfloat16 if whole else torch.float32
        }
        errors[engine] = mean_errors(*found, *expected)
    for packed, dense, most in zip(errors["packed"], errors["dense"], (0.02, 0.1), strict=True):
        assert 1e-4 < dense < most  # it is rounded, and a yardstick
        assert packed <= 2 * dense + 2.0**-9


@torch.no_grad()
def test_autocast_leaves_float64_as_it_is(dictionary, make_pairs):
    pairs = make_pairs(1, [3, 2])
    found, expected = (
        tiny_model(dictionary, autocast=name).double()(pairs.source, None, pairs.previous)[0]
        for name in ("bfloat16", "none")
    )
    assert torch.equal(found, expected)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_is_for_training_alone(dictionary, make_pairs, kind):
    pairs, model = make_pairs(3, [2, 1]), tiny_model(dictionary, **{kind: 0.5})
    expected, found = (
        one(pairs.source, None, pairs.previous)[0] for one in (tiny_model(dictionary), model)
    )
    assert torch.equal(found, expected)
    model.train()
    drawn = [model(pairs.source, None, pairs.previous)[0] for _ in range(2)]
    assert not torch.allclose(*drawn)


def test_activation_checkpointing_gives_the_same_gradients(dictionary, make_pairs):
    """Dropout draws the same numbers once more."""
    pairs, results = make_pairs(2, [4, 2]), []
    model = tiny_model(dictionary, dropout=0.2, attention_dropout=0.2).train()
    for again in (False, True):
        torch.manual_seed(11)
        for part in (model.encoder, model.decoder):
            part.cfg.checkpoint_activations = again
        results.append(forward_and_backward(model, pairs, dictionary.pad()))
    (expected, gradients), (found, recomputed) = results
    assert torch.equal(found, expected)
    torch.testing.assert_close(recomputed, gradients, rtol=1e-5, atol=1e-5)
