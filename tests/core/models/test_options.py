"""Options of all systems that cannot be: each is one error that names the option."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.models.flat_transformer import FlatTransformerConfig, FlatTransformerModel
from gtransformer.models.gtransformer import GTransformerModel
from gtransformer.models.window import WindowTransformerConfig, WindowTransformerModel
from tests.core.models.batch_documents import made
from tests.core.models.test_docflat import MBE
from tests.support import tiny_config, tiny_dictionary, tiny_model

WINDOW = WindowTransformerModel, WindowTransformerConfig
FLAT = FlatTransformerModel, FlatTransformerConfig
GTRANSFORMER = None


@pytest.mark.parametrize(
    ("kinds", "options", "named"),
    [
        (GTRANSFORMER, {"doc_mode": "half"}, "--doc-mode half"),
        (GTRANSFORMER, {"encoder_ctxlayers": 4}, "--encoder-ctxlayers 4"),
        (GTRANSFORMER, {"decoder_embed_dim": 20}, "--encoder-embed-dim 16 .*--decoder-embed-dim 20"),
        (WINDOW, {"decode_alignment": "linear"}, "--length-ratio"),
        (FLAT, {"current_layers": 3}, "--current-layers 3"),
        (MBE, {"batch_vector_in": "encoder", "doc_decoder_layer_norm": True}, "--doc-decoder-layer-norm"),
    ],
)
def test_what_cannot_be(dictionary, kinds, options, named):
    with pytest.raises(UserError, match=named):
        tiny_model(dictionary, **options) if kinds is GTRANSFORMER else made(dictionary, *kinds, **options)


def test_shared_embeddings_need_a_joined_dictionary(dictionary):
    with pytest.raises(UserError, match="--share-all-embeddings"):
        GTransformerModel.build(tiny_config(), dictionary, tiny_dictionary(5))
