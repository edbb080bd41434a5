"""Translating in another precision than the model was trained in: what is computed how, and what
cannot be had.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.modules.kernels import Int8Linear, PackedLinear
from gtransformer.modules.processor import has_bfloat16, has_int8
from gtransformer.translation import engine
from gtransformer.translation.api import GTransformer, Translation
from gtransformer.translation.engine import check_precision
from tests.saved_model import make_model
from tests.support import relative_error

pytestmark = pytest.mark.slow

DOCUMENTS = [
    ["The old dog sleeps.", "Mary finds her book under two trees."],
    ["The river sleeps near a house."],
]
needs_int8 = pytest.mark.skipif(not has_int8(), reason="the processor has no instructions for int8")
needs_bfloat16 = pytest.mark.skipif(
    not has_bfloat16(), reason="the processor has no instructions for bfloat16"
)


def load(model, precision: str) -> GTransformer:
    return GTransformer.from_pretrained(model, device="cpu", precision=precision)


def best(model: GTransformer) -> list[Translation]:
    """The best translation of every sentence."""
    return [line[0] for document in model.nbest(DOCUMENTS) for line in document]


def kept_types(model: GTransformer, monkeypatch) -> set[torch.dtype]:
    """Types of the weights that decoding multiplies with."""
    found = set()
    real, norm = PackedLinear.__call__, nn.LayerNorm.forward

    def call(self, x):
        found.add(self.dtype)
        return real(self, x)

    def normalise(self, x):
        assert x.dtype == torch.float32  # states stay as they are
        return norm(self, x)

    with monkeypatch.context() as patch:
        patch.setattr(PackedLinear, "__call__", call)
        patch.setattr(nn.LayerNorm, "forward", normalise)
        model.translate(DOCUMENTS)
    return found


@pytest.fixture(scope="module")
def trained_in_bfloat16(tmp_path_factory):
    """A model directory whose model was trained with ``--autocast bfloat16``; the weights of
    ``saved_model``.
    """
    return make_model(tmp_path_factory.mktemp("bfloat16"), "--autocast", "bfloat16")


def test_auto_is_what_the_model_was_trained_with(saved_model, trained_in_bfloat16):
    assert best(load(saved_model, "auto")) == best(load(saved_model, "float32"))
    assert best(load(trained_in_bfloat16, "float32")) == best(load(saved_model, "float32"))
    if has_bfloat16():
        assert best(load(trained_in_bfloat16, "auto")) == best(load(saved_model, "bfloat16"))


@needs_bfloat16
def test_bfloat16_rounds_products_alone(saved_model, monkeypatch):
    """Parameters, states and scores stay in float32; what decoding multiplies with does not."""
    exact, rounded = load(saved_model, "float32"), load(saved_model, "bfloat16")
    assert {parameter.dtype for parameter in rounded.engine.model.parameters()} == {torch.float32}
    assert kept_types(exact, monkeypatch) <= {torch.float32} and kept_types(
        rounded, monkeypatch
    ) == {torch.bfloat16}
    found, expected = best(rounded), best(exact)
    same = [pair for pair in zip(found, expected, strict=True) if pair[0].text == pair[1].text]
    assert same  # of random weights, the best may be another one
    for one, other in same:
        assert one.score != other.score and one.score == pytest.approx(other.score, rel=0.05)


@needs_int8
def test_int8_is_close_and_depends_on_no_batch(saved_model):
    """All linear layers, of encoder and decoder, in a pass over everything and word by word."""
    exact, rounded = load(saved_model, "float32"), load(saved_model, "int8")
    layers = [one for one in rounded.engine.model.modules() if isinstance(one, nn.Linear)]
    assert layers and all(isinstance(one.forward, Int8Linear) for one in layers)
    held = [one.untyped_storage() for one in rounded.engine.model.parameters()]
    kept = [one for one in exact.engine.model.modules() if not isinstance(one, nn.Linear)]
    kept = {id(one): one.numel() for module in kept for one in module.parameters(recurse=False)}
    biases = sum(one.bias.numel() for one in layers if one.bias is not None)
    expected = 4 * (
        sum(kept.values()) + biases + len(layers)
    )  # of a layer's weights one number stays
    assert sum({one.data_ptr(): one.nbytes() for one in held}.values()) == expected
    source = exact.engine.instance_tokens([["The"], ["the"]]).unsqueeze(0)
    inputs = source, torch.tensor([source.shape[1]]), source
    logits = [one.engine.model(*inputs)[0].detach() for one in (rounded, exact)]
    assert 1e-4 < relative_error(*logits) < 0.2  # of random weights, drawn wide
    found = best(rounded)
    alone = [line[0] for document in DOCUMENTS for line in rounded.nbest([document])[0]]
    assert [one.text for one in alone] == [one.text for one in found]
    assert [one.score for one in alone] == pytest.approx([one.score for one in found], abs=1e-5)


@pytest.mark.parametrize(
    ("precision", "device"),
    [("int8", "cpu"), ("float16", "cpu"), ("int8", "cuda")],
)
def test_what_cannot_be_had_is_refused(precision, device, monkeypatch):
    """What the processor has no instructions for, or is for other devices."""
    monkeypatch.setattr(engine, "has_int8", lambda: False)
    with pytest.raises(UserError, match=f"--precision {precision}"):
        check_precision(precision, torch.device(device))
