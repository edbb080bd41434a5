"""Options of systems that read their batch: unknown names, and what contradicts itself or would change nothing."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from tests.core.models.batch_documents import made
from tests.core.models.test_docflat import ABD, DOCFLAT, MBE

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kinds", "options", "message"),
    [
        (
            DOCFLAT,
            {"batch_attention_in": "both sides"},
            "--batch-attention-in both sides is unknown; choose one of enc",
        ),
        (
            DOCFLAT,
            {"context_gate": "hard"},
            "--context-gate hard is unknown; choose one of continuous, discrete, ident",
        ),
        (DOCFLAT, {"gate_threshold": 1.5}, "--gate-threshold 1.5: gates are between 0 and 1"),
        (ABD, {"sentence_numbers": "yes"}, "--sentence-numbers yes is unknown; choose one of on, off"),
        (
            MBE,
            {"batch_vector_in": "encoder", "doc_decoder_layer_norm": True},
            "encoder the decoder has no vector; leave",
        ),
        (MBE, {"batch_vector_in": "none"}, "--batch-vector-in none is unknown; choose one of encoder, decoder, both"),
        (MBE, {"encoder_embed_dim": 20, "share_all_embeddings": False}, "both needs equal dimensions, not --encoder"),
    ],
)
def test_what_cannot_be(dictionary, kinds, options, message):
    with pytest.raises(UserError, match=message):
        made(dictionary, *kinds, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate_threshold": 0.7}, "0.7: --context-gate continuous has no threshold; give discrete, or leave it out"),
        (
            {"gate_threshold": 0.7, "context_gate": "identity"},
            "--gate-threshold 0.7: --context-gate identity has no threshold; give discrete, or leave it out",
        ),
        (
            {"context_gate": "discrete", "batch_attention_in": "none"},
            "--context-gate discrete: --batch-attention-in none leaves nothing for a gate to take in; leave it out",
        ),
        (
            {"gate_threshold": 0.7, "context_gate": "discrete", "batch_attention_in": "none"},
            "--gate-threshold 0.7: --batch-attention-in none leaves nothing for a gate",
        ),
    ],
)
def test_what_would_change_nothing_is_not_trained(dictionary, options, message):
    """A model that was, is loaded."""
    model = made(dictionary, *DOCFLAT, **options)
    with pytest.raises(UserError, match=message):
        model.check_training(model.cfg)
