"""A system is its layers' declaration: full pass, decoding with caches and decoding without follow
from it.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.model import make_embedding
from gtransformer.modules.attention import Gate
from gtransformer.modules.kernels import Linear
from tests.full_passes import step_by_step
from tests.support import random_document, relative_error, tiny_config, tiny_model

SENTENCE, DOCUMENT = BySentence(), ByDocument()
TOLERANCE = 1e-11  # float64


class Adapted(Linear):
    """As LoRA and adapters do it."""

    def forward(self, x):
        return super().forward(x) + 0.5 * x.sum(dim=-1, keepdim=True)


class AdaptedGate(Gate):
    def forward(self, both):
        return super().forward(both) ** 2


def adapted(decoder: DocumentDecoder, name: str) -> None:
    """Put another module in the place of a projection."""
    old = decoder.get_submodule(name)
    new = Adapted(old.in_features, old.out_features, bias=old.bias is not None).double()
    new.load_state_dict(old.state_dict())
    decoder.set_submodule(name, new)


def hooked(decoder: DocumentDecoder, name: str) -> None:
    decoder.get_submodule(name).register_forward_hook(lambda module, given, found: 2.0 * found)


def gated(decoder: DocumentDecoder, name: str) -> None:
    decoder.get_submodule(name).__class__ = AdaptedGate


OWN, CROSS = (
    AttentionBlock("self_attn", ((DOCUMENT,),)),
    AttentionBlock("cross", ((DOCUMENT,),), "source"),
)
CHANGED = [
    (adapted, "layers.1.fc1"),
    (adapted, "layers.1.self_attn_local.q_proj"),
    (adapted, "layers.1.cross_gate.0"),
    (gated, "layers.1.cross_gate"),
    (adapted, "output_projection"),
    (hooked, "layers.1.self_attn_local"),
    (hooked, "output_projection"),
]


@torch.no_grad()
@pytest.mark.parametrize(("change", "name"), CHANGED)
def test_modules_that_compute_more_are_called(dictionary, change, name):
    cfg = tiny_config()
    torch.manual_seed(4)
    embedding = make_embedding(dictionary, cfg.decoder_embed_dim)
    two = replace(CROSS, scopes=((SENTENCE,), (DOCUMENT,)))
    decoder = DocumentDecoder(cfg, dictionary, embedding, [(OWN, two)] * 2).double().eval()
    change(decoder, name)
    model = tiny_model(dictionary).double()
    draw = random.Random(2)
    source, target = (torch.tensor([random_document(draw, dictionary, [3, 2])]) for _ in range(2))
    encoder_out = model.encoder(source)
    full = decoder(target, encoder_out)[0][0]
    states = decoder(target, encoder_out, ragged=True)[0]
    for length in (1, 4, target.shape[1]):
        found = step_by_step(decoder, target[:, :length], encoder_out["memory"][0], {})[0]
        assert relative_error(found, full[length - 1]) < TOLERANCE
    if decoder.output_is_product:
        assert relative_error(states @ decoder.output_projection.weight.t(), full) < TOLERANCE
    assert decoder.output_is_product == (name != "output_projection")
