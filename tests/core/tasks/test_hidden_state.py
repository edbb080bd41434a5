"""The task changes neither its options nor itself by building a model, validating or generating."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from fairseq.sequence_scorer import SequenceScorer
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


def test_the_number_of_hypotheses_written_is_the_generators(task):
    """A generator that is built afterwards, for scoring or validation, changes nothing."""
    model = build(task)
    several = task.build_generator([model], Namespace(beam=4, nbest=3))
    one = task.build_generator([model], Namespace(beam=4))
    scorer = task.build_generator([model], Namespace(score_reference=True))
    assert (several.nbest, one.nbest) == (3, 1) and isinstance(scorer, SequenceScorer)
