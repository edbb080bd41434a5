"""The Flat-Transformer: it starts from a sentence model."""

from __future__ import annotations

import torch

from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.flat_transformer import FlatTransformerConfig, FlatTransformerModel
from gtransformer.models.transformer import InstanceTransformerModel
from tests.core.models.oracle_checks import TOLERANCE, batch
from tests.core.models.test_document_transformer import beside_model
from tests.core.models.test_numpy import pairs
from tests.support import relative_error


def flat_model(dictionary, **options) -> FlatTransformerModel:
    return beside_model(dictionary, FlatTransformerModel, FlatTransformerConfig, **options)


@torch.no_grad()
def test_it_starts_from_a_sentence_model(dictionary):
    """Without segments and on single sentences it computes what that does; segments are all that is
    new.
    """
    sentence = beside_model(dictionary, InstanceTransformerModel, DocumentModelConfig)
    model = flat_model(dictionary, load_partial=True)
    model.load_state_dict(sentence.state_dict())
    assert [name for name, _ in model.named_parameters() if not model.is_pretrained(name)] == [
        "encoder.embed_segments.weight"
    ]
    model.encoder.embed_segments.weight.zero_()
    source, target = batch(
        dictionary, [one for one in pairs(dictionary) if one[0].count(dictionary.bos()) == 1]
    )
    assert (
        relative_error(model(source, None, target)[0], sentence(source, None, target)[0])
        < TOLERANCE
    )
