"""The fused loss in float16 at real sizes, where a frequent word's gradient adds up to more than float16 holds."""

from argparse import Namespace
from functools import cache

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch.nn import functional

from gtransformer.lab.benchmark.documents import make_batch, make_dictionary
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.modules import fused_loss
from gtransformer.modules.fused_loss import fused_cross_entropy

pytestmark = pytest.mark.slow

LARGEST = torch.finfo(torch.float16).max
ROUNDING = 2.0**-11  # of one number in float16
# Of the largest gradient of a row: the logit (up to 20, rounded: that is what moves a probability), the gradient as an
# operand, the product and the gradient as a parameter's are rounded once each.
TOLERANCE = 4 * ROUNDING


@pytest.fixture
def fast_product(monkeypatch):
    """Products in float16 as libraries make them, operands and result rounded, sums in float32.

    (Without instructions for float16, PyTorch needs minutes on a CPU for what is a second in float32.)
    """
    monkeypatch.setattr(fused_loss, "product", lambda x, weight: functional.linear(x.float(), weight.float()).half())


@cache
def first_step(vocabulary, documents):
    """Top states (tokens, 512) of an untrained model in float16, its output weights, and targets in which every eighth
    token is ``<s>``: documents of 512 tokens in sentences of 6 words.
    """
    torch.manual_seed(1)
    dictionary = make_dictionary(vocabulary)
    unlimited = dict.fromkeys(("max_source_positions", "max_target_positions"), 1 << 20)
    layers = dict.fromkeys(
        ("encoder_layers", "decoder_layers", "encoder_ctxlayers", "decoder_ctxlayers", "cross_ctxlayers"), 1
    )
    cfg = GTransformerConfig(share_all_embeddings=True, doc_mode="partial", dropout=0.0, **layers, **unlimited)
    model = GTransformerModel.build_model(cfg, Namespace(source_dictionary=dictionary, target_dictionary=dictionary))
    batch = make_batch(documents, 512, 8, dictionary)
    with torch.no_grad():
        features, extra = model(**batch["net_input"], ragged=True)
    weight = model.decoder.output_projection.weight.detach()
    return features.half(), weight.half(), extra["layout"].pack(batch["target"])


def fairseqs(features, weight, targets):
    """The loss of ``label_smoothed_cross_entropy``; there is no padding among the targets."""
    log_probabilities = functional.linear(features, weight).log_softmax(dim=-1)
    return label_smoothed_nll_loss(log_probabilities, targets.unsqueeze(1), 0.1, ignore_index=None)[0]


def gradients(loss_of, features, weight, targets, scale):
    features, weight = features.clone().requires_grad_(), weight.clone().requires_grad_()
    loss = loss_of(features, weight, targets)
    (scale * loss).backward()
    return loss.item(), features.grad, weight.grad


def fused(features, weight, targets):
    return fused_cross_entropy(features, weight, targets, 0.1)[0]


@pytest.mark.parametrize(("vocabulary", "documents"), [(4000, 8), (16000, 1)])
def test_gradients_agree_with_fairseqs_criterion_in_float32(fast_product, vocabulary, documents):
    """4,096 target tokens with the small vocabulary; fewer with the larger one, for the sake of time."""
    features, weight, targets = first_step(vocabulary, documents)
    assert len(targets) == 512 * documents and targets.eq(0).sum() >= len(targets) // 8 - documents
    loss, *expected = gradients(fairseqs, features.float(), weight.float(), targets, 1.0)
    # Not a vacuous size: with a constant scale of 1,024, which would keep rare words, float16 cannot hold it.
    assert expected[1].abs().max() > LARGEST / 1024
    value, *found = gradients(fused, features, weight, targets, 1.0)
    assert value == pytest.approx(loss, rel=ROUNDING)
    assert all(gradient.dtype == torch.float16 for gradient in found)
    for one, wanted in zip(found, expected, strict=True):
        assert row_error(one, wanted) < TOLERANCE


def row_error(found, expected):
    """The largest error of a row over the largest number of the row, in the worst row; infinite where found is."""
    return float(((found.float() - expected).abs().amax(dim=1) / expected.abs().amax(dim=1)).max())


def test_only_the_loss_scale_can_make_it_overflow(fast_product):
    """What float16 cannot hold is infinite, as fairseq's loss scaler wants it, and a smaller scale heals it."""
    features, weight, targets = first_step(4000, 8)
    _, *expected = gradients(fairseqs, features.float(), weight.float(), targets, 1.0)
    _, _, found = gradients(fused, features, weight, targets, 16.0)
    assert row_error(found, 16 * expected[1]) < TOLERANCE
    _, _, found = gradients(fused, features, weight, targets, 128.0)
    assert found[expected[1].abs() * 128 > 1.01 * LARGEST].isinf().all() and found.isinf().any()
    assert found[expected[1].abs() * 128 < LARGEST].isfinite().all()


def test_no_part_of_a_sum_overflows(monkeypatch):
    """A library may add parts of a sum in float16: here they are large, and cancel."""

    def in_parts(x, weight):
        parts = zip(x.float().chunk(4, dim=1), weight.float().chunk(4, dim=1), strict=True)
        return sum(functional.linear(*part).half() for part in parts)

    monkeypatch.setattr(fused_loss, "product", in_parts)
    features = torch.full((4096, 8), 200.0).half()
    features[2048:] *= -1
    weight, targets = torch.zeros(16, 8).half(), torch.zeros(4096, dtype=torch.long)
    _, _, found = gradients(fused, features, weight, targets, 1.0)
    # The magnitudes add up to 4096 * 0.84 * 200, ten times what float16 holds; the sum is zero.
    assert found.abs().max() < TOLERANCE * 4096 * 200


def test_large_output_weights(fast_product):
    """Nor does the gradient of the top states overflow inside, whose sum runs over the vocabulary."""
    features = torch.zeros(3, 8).half()
    weight = 200 * torch.randn(1000, 8, generator=torch.Generator().manual_seed(1)).half()
    targets = torch.tensor([0, 1, 2])
    _, expected, _ = gradients(fairseqs, features.float(), weight.float(), targets, 1.0)
    _, found, _ = gradients(fused, features, weight, targets, 1.0)
    assert (found.float() - expected).abs().max() < TOLERANCE * expected.abs().max()


def test_many_chunks_of_a_large_batch(fast_product, monkeypatch, vocabulary=8_000, tokens=4096):
    """Chunks of 256 tokens, a quarter of them one word; states are narrow, for the sake of time."""
    monkeypatch.setattr(fused_loss, "CHUNK_ELEMENTS", 256 * vocabulary)
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(tokens, 8, generator=generator).half()
    weight = (0.05 * torch.randn(vocabulary, 8, generator=generator)).half()
    targets = torch.randint(vocabulary, (tokens,), generator=generator)
    targets[::4], features[::4, 0] = 0, 8.0
    _, *expected = gradients(fairseqs, features.float(), weight.float(), targets, 1.0)
    assert expected[1].abs().max() > LARGEST / 1024  # what a constant scale of 1,024 could not hold
    _, *found = gradients(fused, features, weight, targets, 1.0)
    for one, wanted in zip(found, expected, strict=True):
        assert row_error(one, wanted) < TOLERANCE
