"""A system is its layers' declaration: full pass, decoding with caches and decoding without follow
from it.
"""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.modules.attention import Gate
from gtransformer.modules.kernels import Linear
from tests.core.models.oracle_checks import TOLERANCE, batch, decoded
from tests.support import random_document, relative_error, tiny_model


class Adapted(Linear):
    """As LoRA and adapters do it."""

    def forward(self, x):
        return super().forward(x) + 0.5 * x.sum(dim=-1, keepdim=True)


class AdaptedGate(Gate):
    def forward(self, both):
        return super().forward(both) ** 2


def adapted(decoder: DocumentDecoder, name: str) -> None:
    decoder.get_submodule(name).__class__ = Adapted


def hooked(decoder: DocumentDecoder, name: str) -> None:
    decoder.get_submodule(name).register_forward_hook(lambda module, given, found: 2.0 * found)


def gated(decoder: DocumentDecoder, name: str) -> None:
    decoder.get_submodule(name).__class__ = AdaptedGate


CHANGED = [
    (adapted, "layers.1.fc1"),
    (adapted, "layers.1.self_attn_local.q_proj"),
    (adapted, "layers.1.encoder_attn_gate.0"),
    (gated, "layers.1.encoder_attn_gate"),
    (adapted, "output_projection"),
    (hooked, "layers.1.self_attn_local"),
    (hooked, "layers.1.self_attn_local.k_proj"),
    (hooked, "output_projection"),
]


@torch.no_grad()
@pytest.mark.parametrize(("change", "name"), CHANGED)
def test_modules_that_compute_more_are_called(dictionary, change, name):
    model, draw = tiny_model(dictionary).double(), random.Random(2)
    decoder = model.decoder
    pair = [random_document(draw, dictionary, [3, 2]) for _ in range(2)]
    source, target = batch(dictionary, [pair])
    before = model(source, None, target)[0][0]
    change(decoder, name)
    full = model(source, None, target)[0][0]
    assert not torch.allclose(full, before)
    for found, expected in zip(decoded(model, *pair), full, strict=True):
        assert relative_error(found, expected) < TOLERANCE
    assert decoder.output_is_product == (name != "output_projection")
