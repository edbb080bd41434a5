"""The fused loss against the loss written out."""

import pytest
import torch

from gtransformer.modules import fused_loss, kernels
from gtransformer.modules.fused_loss import fused_cross_entropy


def written_out(features, weight, targets, smoothing):
    """Cross-entropy against 1 - e at the target and e / (V - 1) at every other word."""
    log_probabilities = (features @ weight.t()).log_softmax(dim=-1)
    vocabulary = weight.shape[0]
    wanted = torch.full_like(log_probabilities, smoothing / (vocabulary - 1))
    wanted.scatter_(1, targets.unsqueeze(1), 1 - smoothing)
    return -(wanted * log_probabilities).sum(), -log_probabilities.gather(
        1, targets.unsqueeze(1)
    ).sum()


def run(function, features, weight, targets, smoothing, scale=1.0):
    features, weight = features.clone().requires_grad_(), weight.clone().requires_grad_()
    loss, nll = function(features, weight, targets, smoothing)
    (loss * scale).backward()
    return loss.detach(), nll.detach(), features.grad, weight.grad


@pytest.fixture
def inputs():
    return torch.randn(37, 12).double(), torch.randn(50, 12).double(), torch.randint(50, (37,))


@pytest.mark.parametrize(("chunk", "cached"), [(1 << 24, 1 << 18), (500, 150), (1, 1)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradients(inputs, smoothing, chunk, cached, monkeypatch):
    monkeypatch.setattr(fused_loss, "CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(fused_loss, "FEWEST_ROWS", 7)
    monkeypatch.setattr(kernels, "CACHED_ELEMENTS", cached)
    for found, expected in zip(
        run(fused_cross_entropy, *inputs, smoothing, scale=3.0),
        run(written_out, *inputs, smoothing, 3.0),
        strict=True,
    ):
        assert torch.allclose(found, expected, rtol=1e-10)


HALF = {torch.bfloat16: 3e-2, torch.float16: 3e-3}


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), *HALF.items()])
def test_lower_precision(inputs, dtype, tolerance, autocast):
    """Of the arguments, or of the products of float32 ones by autocast."""
    kept = torch.float32 if autocast else dtype
    given = [x.to(kept) if x.is_floating_point() else x for x in inputs]
    with torch.autocast("cpu", dtype, enabled=autocast and dtype in HALF):
        found = run(fused_cross_entropy, *given, 0.1)
    wide = [x.double() if x.is_floating_point() else x for x in given]
    expected = run(written_out, *wide, 0.1)
    assert [one.dtype for one in found] == [torch.float32] * 2 + [kept] * 2
    if autocast and dtype in HALF:
        assert found[0] != run(fused_cross_entropy, *given, 0.1)[0]
    for one, exact in zip(found, expected, strict=True):
        assert (one.double() - exact).abs().max() < tolerance * exact.abs().max()


def test_no_tokens_and_frozen_output_weights(inputs):
    features, weight, targets = inputs
    features = features.requires_grad_()
    fused_cross_entropy(features, weight, targets, 0.1)[0].backward()
    assert weight.grad is None and features.grad.abs().sum() > 0
    loss, nll = fused_cross_entropy(features[:0], weight, targets[:0], 0.1)
    assert loss == nll == 0


def test_a_frequent_words_gradient_in_float16():
    """The sum over 4,096 tokens of one word exceeds float16's range; scaled down, it is that of
    float32.
    """
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(4096, 8, generator=generator).half()
    weight = (0.05 * torch.randn(1000, 8, generator=generator)).half()
    targets = torch.randint(1000, (4096,), generator=generator)
    targets[::4], features[::4, 0] = 0, 100.0

    _, _, *expected = run(written_out, features.float(), weight.float(), targets, 0.1, 0.125)
    assert 8 * expected[1].abs().max() > torch.finfo(torch.float16).max
    _, _, *found = run(fused_cross_entropy, features, weight, targets, 0.1, 0.125)
    for one, wanted in zip(found, expected, strict=True):
        errors = (one.float() - wanted).abs().amax(dim=1) / wanted.abs().amax(dim=1)
        assert errors.max() < 4 * 2.0**-11  # a few roundings of one number
