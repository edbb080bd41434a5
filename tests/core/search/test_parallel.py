"""All sentences of a document at a time: greedy search equals that over the document, token by token."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.search import parallel as parallel_module
from gtransformer.search.beam import BeamSearch
from gtransformer.search.parallel import ParallelSearch
from gtransformer.search.strategies import PARALLEL
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.core.search.test_beam import assert_same
from tests.core.search.test_sequential import sentences_of
from tests.support import random_lengths, tiny_model

SHAPES = [[3, 1, 4, 2, 5], [2], [1, 6, 2], [4, 0, 3, 3], [2] * 7]
LIMITS = {"max_len_a": 1.2, "max_len_b": 2}
GROUP = {"encoder_ctxlayers": 2, "decoder_ctxlayers": 0, "cross_ctxlayers": 0}
ALONE = {
    "group attention": {**GROUP, "encoder_ctxlayers": 0, "positions": "sentence"},
    "global in the encoder": {**GROUP, "positions": "sentence"},
    "global cross-attention": {**GROUP, "cross_ctxlayers": 2, "positions": "sentence"},
    "SSRU": {**GROUP, "positions": "sentence", "decoder_unit": "ssru"},
    "no positions": {**GROUP, "no_token_positional_embeddings": True},
}


def in_order(dictionary, models, batch, **options):
    """The search over whole documents, one token at a time."""
    translate = Translator(dictionary, models, {"sentence_rule": "on"}, **{**LIMITS, **options})
    assert translate.generator.fast and not translate.generator.parallel
    plain = ParallelSearch.independent
    try:
        ParallelSearch.independent = False
        return translate(batch)
    finally:
        ParallelSearch.independent = plain


def at_once(dictionary, models, batch, **options):
    """The search over all sentences."""
    task = {"strategy": PARALLEL, "documents_at_once": options.pop("documents_at_once", 0)}
    return Translator(dictionary, models, task, **{**LIMITS, **options})(batch)
