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
    return -(wanted * log_probabilities).sum(), -log_probabilities.gather(1, targets.unsqueeze(1)).sum()


def run(function, features, weight, targets, smoothing, scale=1.0):
    features, weight = features.clone().requires_grad_(), weight.clone().requires_grad_()
    loss, nll = function(features, weight, targets, smoothing)
    (loss * scale).backward()
    return loss.detach(), nll.detach(), features.grad, weight.grad


@pytest.fixture
def inputs():
    return torch.randn(37, 12).double(), torch.randn(50, 12).double(), torch.randint(50, (37,))


@pytest.mark.parametrize("large", [50, 51])  # the vocabulary is large, or not
@pytest.mark.parametrize(("chunk", "cached"), [(1 << 24, 1 << 18), (1 << 24, 150), (500, 150), (1, 1)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_value_and_gradients(inputs, smoothing, chunk, cached, large, monkeypatch):
    monkeypatch.setattr(fused_loss, "CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(fused_loss, "FEWEST_ROWS", 7)
    monkeypatch.setattr(kernels, "CACHED_ELEMENTS", cached)
    monkeypatch.setattr(fused_loss, "LARGE_VOCABULARY", large)
    for found, expected in zip(
        run(fused_cross_entropy, *inputs, smoothing, scale=3.0), run(written_out, *inputs, smoothing, 3.0), strict=True
    ):
        assert torch.allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("large", [50, 51])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float16, 3e-3)])
def test_lower_precision(inputs, dtype, tolerance, large, monkeypatch):
    monkeypatch.setattr(fused_loss, "LARGE_VOCABULARY", large)
    features, weight, targets = inputs
    features, weight = features.to(dtype), weight.to(dtype)
    loss, nll, *gradients = run(fused_cross_entropy, features, weight, targets, 0.1)
    expected_loss, expected_nll, *expected = run(written_out, features.double(), weight.double(), targets, 0.1)
    assert loss.dtype == nll.dtype == torch.float32
    assert loss.item() == pytest.approx(expected_loss.item(), rel=tolerance)
    assert nll.item() == pytest.approx(expected_nll.item(), rel=tolerance)
    for found, wanted in zip(gradients, expected, strict=True):
        assert found.dtype == dtype
        assert (found.double() - wanted).abs().max() < tolerance * wanted.abs().max()


def test_gradients_that_are_nothing_stay_nothing_in_float16():
    """A model that is certain, without smoothing: every row of the gradients is zero, and is not divided by that."""
    features, weight = torch.zeros(20, 8), torch.zeros(30, 8)
    features[:, 0], weight[:, 0], weight[3, 0] = 60, -60, 60
    *_, of_features, of_weight = run(fused_cross_entropy, features.half(), weight.half(), torch.full((20,), 3), 0.0)
    assert of_features.eq(0).all() and of_weight.eq(0).all()


def test_autocast_computes_in_its_type(inputs):
    features, weight, targets = (x.float() if x.is_floating_point() else x for x in inputs)
    expected = run(fused_cross_entropy, features, weight, targets, 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(fused_cross_entropy, features, weight, targets, 0.1)
    assert found[2].dtype == found[3].dtype == torch.float32
    assert found[0] != expected[0]
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() < 3e-2 * other.abs().max()


def test_no_tokens():
    loss, nll = fused_cross_entropy(torch.zeros(0, 4), torch.randn(5, 4), torch.zeros(0, dtype=torch.long), 0.1)
    assert loss == nll == 0


def test_frozen_output_weights(inputs):
    features, weight, targets = inputs
    features = features.requires_grad_()
    fused_cross_entropy(features, weight, targets, 0.1)[0].backward()
    assert weight.grad is None and features.grad.abs().sum() > 0


def test_validation_makes_no_gradient(monkeypatch):
    """It costs the product of states and weights, and no other."""
    features, weight = torch.randn(40, 8, requires_grad=True), torch.randn(300, 8, requires_grad=True)
    targets, shapes, product = torch.randint(300, (40,)), [], fused_loss.product

    def noted(one, other):
        shapes.append((tuple(one.shape), tuple(other.shape)))
        return product(one, other)

    monkeypatch.setattr(fused_loss, "product", noted)
    with torch.no_grad():
        found = fused_cross_entropy(features, weight, targets, 0.1)
    assert shapes == [((40, 8), (300, 8))]
    expected = fused_cross_entropy(features, weight, targets, 0.1)
    assert len(shapes) == 4
    for one, other in zip(found, expected, strict=True):
        assert not one.requires_grad
        torch.testing.assert_close(one, other.detach())
