"""Options of all systems that cannot be: each is one error that names the option."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.models.flat_transformer import FlatTransformerConfig, FlatTransformerModel
from gtransformer.models.gtransformer import GTransformerModel
from gtransformer.models.window import WindowTransformerConfig, WindowTransformerModel
from tests.support import drawn, tiny_config, tiny_dictionary, tiny_model

WINDOW, FLAT = (
    (WindowTransformerModel, WindowTransformerConfig),
    (FlatTransformerModel, FlatTransformerConfig),
)
REFUSED = {
    "--encoder-ctxlayers 4": lambda dictionary: tiny_model(dictionary, encoder_ctxlayers=4),
    "--length-ratio": lambda dictionary: drawn(dictionary, *WINDOW, decode_alignment="linear"),
    "--current-layers 4": lambda dictionary: drawn(dictionary, *FLAT, current_layers=4),
    "--share-all-embeddings": lambda dictionary: GTransformerModel.build(
        tiny_config(), dictionary, tiny_dictionary(5)
    ),
}


@pytest.mark.parametrize("named", REFUSED)
def test_what_cannot_be(dictionary, named):
    with pytest.raises(UserError, match=named):
        REFUSED[named](dictionary)
