"""Groupings that cannot be: options against each other, against the model, and for text that is typed."""

from argparse import Namespace
from dataclasses import fields

import pytest
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.models.common.config import DocumentModelConfig
from tests.core.tasks.loaded import setup
from tests.support import tiny_config, tiny_model


def build(task, mode, from_checkpoint=False):
    return task.build_model(OmegaConf.structured(tiny_config(_name="gtransformer", doc_mode=mode)), from_checkpoint)


@pytest.mark.parametrize("said", ["partial", "full"])
def test_unequal_sides_are_not_for_group_attention(said):
    """How the model was trained decides, whatever the command says of it when it is used."""
    task = setup(instances="current", context_sentences=2, doc_mode=said)
    message = "--context-sentences 2 and --target-context-sentences 0: the model .*; give equal numbers"
    with pytest.raises(UserError, match=f"{message}, or train with --doc-mode full$"):
        build(task, "partial")
    with pytest.raises(UserError, match=f"{message}$"):
        build(task, "partial", from_checkpoint=True)
    with pytest.raises(UserError, match=f"{message}$"):
        task.build_generator([tiny_model(task.tgt_dict)], Namespace(beam=1))
    line = task.src_dict.encode_line("<s> </s>", add_if_not_exist=False).long()
    with pytest.raises(UserError, match="--instances current: lines that are typed"):
        task.build_dataset_for_inference([line], [len(line)])
    for model in (build(task, "full", from_checkpoint=True), tiny_model(task.tgt_dict, doc_mode="full")):
        assert task.build_generator([model], Namespace(beam=1)).rule is None


@pytest.mark.parametrize("arch", ["doc_transformer", "lst_transformer"])
def test_unequal_sides_are_for_models_that_see_the_whole_source(arch):
    """Whatever --doc-mode is by default; their translations have as many sentences as they will."""
    task = setup(instances="current", context_sentences=2)
    cfg = tiny_config()
    sizes = {field.name: getattr(cfg, field.name) for field in fields(DocumentModelConfig)}
    model = task.build_model(OmegaConf.structured(DocumentModelConfig(**sizes | {"_name": arch})), from_checkpoint=True)
    assert task.build_generator([model], Namespace(beam=1)).rule is None


def test_equal_sides_are_for_every_model():
    task = setup(instances="current", context_sentences=1, target_context_sentences=1, doc_constraint=True)
    for mode in ("partial", "full"):
        assert task.build_generator([build(task, mode, from_checkpoint=True)], Namespace(beam=1)).rule is not None
