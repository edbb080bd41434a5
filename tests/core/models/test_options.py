"""Options of all systems that cannot be: each is one error that names the option; and what no training begins with."""

from __future__ import annotations

import math
from argparse import Namespace

import pytest

from gtransformer.errors import UserError
from gtransformer.models.document_transformer import DocumentTransformerConfig, DocumentTransformerModel
from gtransformer.models.flat_transformer import FlatTransformerConfig, FlatTransformerModel
from gtransformer.models.gtransformer import GTransformerModel
from gtransformer.models.window import WindowTransformerConfig, WindowTransformerModel
from tests.core.models.batch_documents import made
from tests.core.models.test_docflat import ABD, DOCFLAT, MBE
from tests.support import tiny_config, tiny_dictionary, tiny_model

WINDOW = WindowTransformerModel, WindowTransformerConfig
DOCUMENT = DocumentTransformerModel, DocumentTransformerConfig
FLAT = FlatTransformerModel, FlatTransformerConfig
GTRANSFORMER = None
APART = {"encoder_embed_dim": 20, "share_all_embeddings": False}


@pytest.mark.parametrize(
    ("kinds", "options", "named"),
    [
        (GTRANSFORMER, {"doc_mode": "half"}, "--doc-mode half"),
        (GTRANSFORMER, {"encoder_ctxlayers": 4}, "--encoder-ctxlayers 4"),
        (GTRANSFORMER, {"cross_ctxlayers": -1}, "--cross-ctxlayers -1"),
        (GTRANSFORMER, {"decoder_embed_dim": 20}, "--encoder-embed-dim 16 .*--decoder-embed-dim 20"),
        (GTRANSFORMER, {"encoder_attention_heads": 7}, "--encoder-attention-heads 7"),
        (GTRANSFORMER, {"dropout": 1.5}, "--dropout 1.5"),
        (GTRANSFORMER, {"marks_loss": "no"}, "--marks-loss no"),
        (WINDOW, {"window": 0}, "--window 0"),
        (WINDOW, {"decode_alignment": "diagonal"}, "--decode-alignment diagonal"),
        (WINDOW, {"decode_alignment": "linear"}, "--length-ratio"),
        (WINDOW, {"length_ratio": -1.0}, "--length-ratio -1"),
        (WINDOW, {"length_ratio": 0.0}, "--length-ratio 0: give a number greater than 0"),
        (WINDOW, {"length_ratio": math.nan}, "--length-ratio nan: give a number greater than 0"),
        (WINDOW, {"length_ratio": math.inf}, "--length-ratio inf: give a number greater than 0"),
        (DOCUMENT, {"context_layers": 0}, "--context-layers 0"),
        (DOCUMENT, {"context_in": "target"}, "--context-in target"),
        (DOCUMENT, {"context_join": "sum"}, "--context-join sum"),
        (DOCUMENT, {"context_of_first": "last"}, "--context-of-first last"),
        (FLAT, {"current_layers": -1}, "--current-layers -1"),
        (FLAT, {"current_layers": 3}, "--current-layers 3"),
        (DOCFLAT, {"batch_attention_in": "both sides"}, "--batch-attention-in both sides"),
        (DOCFLAT, {"context_gate": "hard"}, "--context-gate hard"),
        (DOCFLAT, {"gate_threshold": 1.5}, "--gate-threshold 1.5"),
        (ABD, {"sentence_numbers": "yes"}, "--sentence-numbers yes"),
        (MBE, {"batch_vector_in": "encoder", "doc_decoder_layer_norm": True}, "--doc-decoder-layer-norm"),
        (MBE, {"batch_vector_in": "none"}, "--batch-vector-in none"),
        (MBE, APART, "--encoder-embed-dim 20"),
    ],
)
def test_what_cannot_be(dictionary, kinds, options, named):
    with pytest.raises(UserError, match=named):
        tiny_model(dictionary, **options) if kinds is GTRANSFORMER else made(dictionary, *kinds, **options)


def test_shared_embeddings_need_a_joined_dictionary(dictionary):
    task = Namespace(source_dictionary=dictionary, target_dictionary=tiny_dictionary(5))
    with pytest.raises(UserError, match="--share-all-embeddings"):
        GTransformerModel.build_model(tiny_config(), task)
