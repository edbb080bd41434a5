"""The task changes neither its options nor itself by building a model, validating or generating."""

from __future__ import annotations

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from omegaconf import OmegaConf

from gtransformer.tasks.translation_doc import TranslationDocTask
from tests.core.tasks.test_validation_entropy import sample
from tests.support import task_config, tiny_config


@pytest.fixture
def task(dictionary) -> TranslationDocTask:
    """Validates with BLEU and attention entropy; its options cannot be changed."""
    cfg = OmegaConf.structured(task_config(eval_bleu=True, eval_bleu_args='{"beam": 2}', doc_attn_entropy=True))
    OmegaConf.set_readonly(cfg, True)
    return TranslationDocTask(cfg, dictionary, dictionary)


@pytest.fixture
def batch(dictionary) -> dict:
    return sample(dictionary, 1, [[3, 1, 4], [2, 2]])


def build(task):
    torch.manual_seed(1)
    return task.build_model(OmegaConf.structured(tiny_config(_name="gtransformer")), from_checkpoint=True)


def test_validation_leaves_the_options_alone(task, batch):
    model = build(task)
    criterion = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)
    before = {name: id(value) for name, value in vars(task).items()}
    logs = [task.valid_step(batch, model, criterion)[2] for _ in range(2)]
    assert logs[0] == logs[1]
    with metrics.aggregate(new_root=True) as found:
        task.reduce_metrics(logs, criterion)
    values = found.get_smoothed_values()
    assert {"loss", "s_bleu", "d_bleu", "bleu", "entropy_cross_group"} <= set(values)
    assert {name: id(value) for name, value in vars(task).items()} == before
