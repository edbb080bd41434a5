"""Recipe mbart: the structure of mBART25, from checkpoints of fairseq's own class (section 5.2)."""

from __future__ import annotations

import re

import pytest
import torch
from fairseq import models

from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import load_recipe
from tests.core.models import fairseq_models
from tests.support import relative_error, tiny_dictionary, tiny_task, training_options

pytestmark = pytest.mark.slow

LANGS = ("ar_AR", "cs_CZ", "de_DE", "en_XX")
# As in the command that fine-tunes mBART25 with fairseq.
MBART = {
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "layernorm_embedding": True,
}
STRUCTURE = re.compile("activation-fn|normalize-before|learned-pos|layernorm|share")
SMALL = [f"--{key.replace('_', '-')}={value}" for key, value in fairseq_models.SIZES.items()]


@pytest.fixture
def dictionary():
    return tiny_dictionary(langs=LANGS)


@pytest.fixture
def mbart(dictionary):
    """12 dimensions would do; these are 16, with mBART25's 1024 learned positions."""
    return fairseq_models.build(dictionary, "mbart_large", **MBART)


def build(dictionary, *arguments):
    """The recipe's model made small on the command line, as training builds it."""
    task = tiny_task(dictionary, target_lang="de_DE", source_lang="en_XX", langs=",".join(LANGS))
    line = [
        "data",
        "--task",
        "translation_doc",
        "--arch",
        "gtransformer_large",
        "--dropout=0",
        "--load-partial",
    ]
    train = load_recipe("mbart").train
    line += to_arguments({name: train[name] for name in train if STRUCTURE.search(name)})
    cfg = training_options([*line, *SMALL, *arguments])
    return models.build_model(cfg.model, task).eval()


def test_logits_are_mbarts(dictionary, mbart, make_pairs):
    """``--doc-mode full`` is mBART itself: pre-norm, learned positions, embedding and final layer
    norms, scaling.
    """
    model = build(dictionary, "--doc-mode=full")
    model.load_state_dict(dict(mbart.state_dict()))
    pairs = make_pairs(2, [2, 3])
    lengths = pairs.source.ne(dictionary.pad()).sum(1)
    with torch.no_grad():
        expected = mbart(pairs.source, lengths, pairs.previous)[0]
        found = model(pairs.source, None, pairs.previous)[0]
    real = pairs.previous.ne(dictionary.pad())
    assert relative_error(found[real], expected[real]) < 1e-5
