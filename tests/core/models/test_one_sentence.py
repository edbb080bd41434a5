"""Documents of one sentence: LST and window attention with a Transformer's weights are that
Transformer.
"""

from __future__ import annotations

import random

import pytest
import torch
from torch.nn import functional

from gtransformer.models.common.pretrained import from_transformer
from gtransformer.models.transformer import (
    InstanceTransformerModel,
    LstTransformerConfig,
    LstTransformerModel,
)
from gtransformer.models.window import ALIGNMENTS, WindowTransformerConfig, WindowTransformerModel
from tests.support import drawn, pad_batch, random_document

LENGTHS = (
    5,
    1,
    9,
    0,
    7,
)  # words; a window of 10 sees every token of 9 words and two marks from any other


def lst(dictionary, **options):
    return drawn(dictionary, LstTransformerModel, LstTransformerConfig, **options)


def windows(dictionary, **options):
    own = {"window": 10, "window_positions": "absolute", "length_ratio": 1.2, **options}
    return drawn(dictionary, WindowTransformerModel, WindowTransformerConfig, **own)


SYSTEMS = {
    "LST": (lst, {}),
    "LST, cross-attention by sentence": (lst, {"translation_locality": True}),
    **{f"windows aligned {one}": (windows, {"train_alignment": one}) for one in ALIGNMENTS},
}


def loss_and_gradient(model, dictionary, pairs) -> tuple[float, torch.Tensor]:
    """Mean negative log-likelihood of a target token, and its gradient at the encoder's
    embeddings.
    """
    pad = dictionary.pad()
    source = pad_batch([one for one, _ in pairs], pad, left=True)
    target = pad_batch([one for _, one in pairs], pad, left=False)
    logits, _ = model(source, None, target[:, :-1])
    loss = functional.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=pad)
    (gradient,) = torch.autograd.grad(loss, [model.encoder.embed_tokens.weight])
    return loss.item(), gradient


@pytest.mark.parametrize("name", SYSTEMS)
def test_loss_and_gradient_are_the_sentence_models(dictionary, name):
    make, options = SYSTEMS[name]
    sentences, system = drawn(dictionary, InstanceTransformerModel), make(dictionary, **options)
    system.load_state_dict(from_transformer(sentences.state_dict(), system))
    draw = random.Random(1)
    pairs = [
        tuple(random_document(draw, dictionary, [length]) for _ in range(2)) for length in LENGTHS
    ]
    (expected, slope), (loss, own) = (
        loss_and_gradient(one, dictionary, pairs) for one in (sentences, system)
    )
    assert loss == pytest.approx(expected, abs=1e-10)
    assert torch.allclose(own, slope, atol=1e-10, rtol=0)
    two = [tuple(random_document(draw, dictionary, [4, 12]) for _ in range(2))]
    # Beyond one sentence, or one window, they differ: the equality above is not one of all
    # documents.
    assert (
        abs(
            loss_and_gradient(sentences, dictionary, two)[0]
            - loss_and_gradient(system, dictionary, two)[0]
        )
        > 1e-3
    )
