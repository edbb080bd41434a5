"""Every system against NumPy: full pass, derivatives, every step of decoding with caches and
without.
"""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch

from gtransformer.models.document_transformer import (
    DocumentTransformerConfig,
    DocumentTransformerModel,
)
from gtransformer.models.flat_transformer import FlatTransformerConfig, FlatTransformerModel
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.models.transformer import (
    InstanceTransformerModel,
    LstTransformerConfig,
    LstTransformerModel,
)
from gtransformer.models.window import ALIGNMENTS, WindowTransformerConfig, WindowTransformerModel
from tests.core.models.numpy_oracle import ContextOracle, DocumentOracle, FlatOracle
from tests.core.models.oracle_checks import (
    batch,
    check_derivatives,
    check_every_step,
    numpy_logits,
)
from tests.support import drawn, random_document, with_engine

pytestmark = pytest.mark.slow

NORMS = {"encoder_normalize_before": True, "decoder_normalize_before": True}
SMALL = {"encoder_layers": 2, "decoder_layers": 2}
# Words by sentence. Of documents, source and target: one-token documents, far more on one side,
# more sentences on one side. Of sentences with context, the last of the source being current.
DOCUMENTS = [
    ([3, 1, 5], [2, 2, 4]),
    ([0], [0]),
    ([9, 8], [1, 0]),
    ([1], [7]),
    ([2, 2, 2], [3]),
    ([4], [2, 1, 1]),
]
SENTENCES = [
    ([3], [4]),
    ([2, 4, 1], [2]),
    ([0, 3], [0]),
    ([1, 0, 0], [3]),
    ([0], [1]),
    ([2, 2, 2, 2, 3], [5]),
]


def gtransformer(**options):
    given = {
        "doc_mode": "partial",
        "encoder_ctxlayers": 1,
        "decoder_ctxlayers": 1,
        "cross_ctxlayers": 1,
    }
    return partial(
        drawn, kind=GTransformerModel, config=GTransformerConfig, **given | options
    ), DocumentOracle


def window(width: int, alignment: str, positions: str):
    given = {"window": width, "length_ratio": 1.3, "window_positions": positions}
    given |= {"train_alignment": alignment, "decode_alignment": alignment}
    return partial(
        drawn, kind=WindowTransformerModel, config=WindowTransformerConfig, **given
    ), DocumentOracle


def lst(**options):
    return partial(
        drawn, kind=LstTransformerModel, config=LstTransformerConfig, **options
    ), DocumentOracle


def context(**options):
    kind = {"kind": DocumentTransformerModel, "config": DocumentTransformerConfig}
    return partial(drawn, **kind, **SMALL | options), ContextOracle


def flat(**options):
    kind = {"kind": FlatTransformerModel, "config": FlatTransformerConfig}
    return partial(drawn, **kind, **SMALL | options), FlatOracle


SYSTEMS = {
    "G-Transformer": gtransformer(),
    "group": gtransformer(encoder_ctxlayers=0, decoder_ctxlayers=0, cross_ctxlayers=0),
    "other layers": gtransformer(encoder_ctxlayers=3, decoder_ctxlayers=0, cross_ctxlayers=2),
    "full": gtransformer(doc_mode="full", share_all_embeddings=False),
    "full by sentence": gtransformer(
        doc_mode="full", positions="sentence", decoder_learned_pos=True
    ),
    "by sentence": gtransformer(positions="sentence"),
    "prenorm": gtransformer(**NORMS),
    "global on top": gtransformer(context_attention="global"),
    "no language locality": gtransformer(no_language_locality=True),
    "no translation locality": gtransformer(no_translation_locality=True),
    "SSRU": gtransformer(decoder_unit="ssru", positions="sentence"),
    "SSRU, full": gtransformer(decoder_unit="ssru", doc_mode="full"),
    "Transformer": (partial(drawn, kind=InstanceTransformerModel), DocumentOracle),
    "LST": lst(),
    "LST by sentence": lst(translation_locality=True),
    **{
        f"window {width} {alignment} {positions}": window(width, alignment, positions)
        for alignment in ALIGNMENTS
        for width, positions in (
            (1, "relative"),
            (3, "absolute"),
            (4, "relative"),
            (40, "relative"),
        )
    },
    "context": context(),
    "context, encoder": context(context_in="encoder"),
    "context, decoder": context(context_in="decoder"),
    "context, prenorm": context(**NORMS, context_layers=2),
    "context, prenorm residual decoder": context(
        **NORMS, context_join="residual", context_in="decoder"
    ),
    "context, wider encoder": context(
        share_all_embeddings=False,
        encoder_embed_dim=20,
        encoder_learned_pos=True,
        max_source_positions=40,
    ),
    "flat": flat(encoder_layers=3),
    "flat, prenorm": flat(current_layers=1, **NORMS),
    "flat, none": flat(current_layers=0),
}
DENSE = ("G-Transformer", "SSRU", "LST", "window 4 linear relative", "context", "flat")
WITHOUT_CACHES = (
    *DENSE,
    "by sentence",
    "no translation locality",
    "window 4 sentence relative",
    "flat, none",
)


def pairs(dictionary, oracle: type = ContextOracle) -> list[tuple[list[int], list[int]]]:
    """Documents of DOCUMENTS, and one whose single token is ``<s>``; or pairs of SENTENCES."""
    draw, whole = random.Random(2), oracle is DocumentOracle
    found = [
        tuple(random_document(draw, dictionary, side) for side in one)
        for one in (DOCUMENTS if whole else SENTENCES)
    ]
    return [*found, ([dictionary.bos()], [dictionary.bos()])] if whole else found


@pytest.mark.parametrize(
    ("name", "engine"),
    [*((name, "packed") for name in SYSTEMS), *((name, "dense") for name in DENSE)],
)
def test_forward_and_backward(dictionary, name, engine):
    """In a batch of different lengths, padded on either side."""
    make, oracle = SYSTEMS[name]
    model, documents = with_engine(make(dictionary), engine), pairs(dictionary, oracle)
    source, target = batch(dictionary, documents, extra=1)
    check_derivatives(
        model(source, None, target)[0],
        model,
        lambda p: numpy_logits(model, dictionary, documents, oracle, p),
    )


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "caches"),
    [*((name, True) for name in SYSTEMS), *((name, False) for name in WITHOUT_CACHES)],
)
def test_every_step(dictionary, monkeypatch, name, caches):
    """Token by token, where the target's length is not known."""
    make, oracle = SYSTEMS[name]
    monkeypatch.setattr(DocumentOracle, "decoding", True)
    check_every_step(make(dictionary), dictionary, pairs(dictionary, oracle), oracle, caches)


@torch.no_grad()
@pytest.mark.parametrize("name", ["G-Transformer", "window 4 sentence relative", "SSRU"])
def test_long_documents(dictionary, monkeypatch, name):
    """More tokens than there is room for at first; old ones are stored elsewhere, and nothing
    changes.
    """
    make, oracle = SYSTEMS[name]
    monkeypatch.setattr(DocumentOracle, "decoding", True)
    draw = random.Random(4)
    pair = tuple(random_document(draw, dictionary, [6] * 30) for _ in "st")
    check_every_step(make(dictionary), dictionary, [pair], oracle, True)
