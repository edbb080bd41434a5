"""Mini-batch embeddings with their classifier: what is lost, what it learns from, and where it is refused."""

from __future__ import annotations

import math
from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.logging import metrics
from omegaconf import OmegaConf

from gtransformer.criterions.fused_label_smoothed_cross_entropy import FusedLabelSmoothedCrossEntropy
from gtransformer.errors import UserError
from gtransformer.tasks.checkpoint_compatibility import check_combinations
from gtransformer.tasks.generation import as_read
from tests.core.models.batch_documents import document
from tests.core.models.batch_oracle import BatchOracle
from tests.core.models.test_docflat import joined, system

SMOOTHED = LabelSmoothedCrossEntropyCriterionConfig(label_smoothing=0.1)


def sample_of(dictionary, batches, **more) -> dict:
    """A training batch whose targets are the decoder's inputs, moved by one."""
    inputs = joined(batches)
    target = torch.cat([inputs["prev_output_tokens"][:, 1:], inputs["prev_output_tokens"][:, :1]], dim=1)
    target = target.masked_fill(inputs["prev_output_tokens"].eq(dictionary.pad()), dictionary.pad())
    ntokens = int(target.ne(dictionary.pad()).sum())
    return {"net_input": inputs, "target": target, "ntokens": ntokens, **more}


@pytest.fixture
def criterion(dictionary):
    task = Namespace(target_dictionary=dictionary)
    return FusedLabelSmoothedCrossEntropy.build_criterion(SMOOTHED, task)


def test_its_loss_is_added(dictionary, criterion):
    """The cross-entropy of NumPy's logits, smoothed by 0.1 and summed over instances, as in the authors' code."""
    model = system(dictionary, "MBE classifier")
    batches = [document(dictionary, seed, sentences) for seed, sentences in ((3, 6), (4, 3))]
    in_order = torch.tensor([True] * 6 + [False] * 3)
    plain = sample_of(dictionary, batches)
    sample = as_read(plain | {"in_order": in_order}, model)
    without, _, logs_without = criterion(model, plain)
    loss, _, logs = criterion(model, sample)
    oracle, expected = BatchOracle(model), 0.0
    for batch, right in zip(batches, (1, 0), strict=True):
        x = oracle.embeddings("encoder", batch.rows(batch.source), batch.first)
        states = [oracle.stack("encoder.batch_vector", "encoder", 1, one).mean(axis=0) for one in x]
        logit = oracle.classified(np.mean(states, axis=0))[0]
        costs = [math.log1p(math.exp(-logit)), math.log1p(math.exp(logit))]  # of saying that it is, that it is not
        expected += len(batch.source) * ((0.9 if right else 0.1) * costs[0] + (0.1 if right else 0.9) * costs[1])
    assert float((loss - without).detach()) == pytest.approx(expected, rel=1e-9)
    assert logs["nll_loss"] == logs_without["nll_loss"] and "own_loss_batch_classifier" not in logs_without
    with metrics.aggregate() as found:
        FusedLabelSmoothedCrossEntropy.reduce_metrics([logs, logs])
    assert found["batch_classifier"].avg == pytest.approx(expected / 9 / math.log(2), abs=1e-3)
    loss.backward()
    assert all(one.grad is not None and one.grad.any() for one in model.encoder.batch_vector.classifier.parameters())


def options(**criterion):
    return OmegaConf.create({"criterion": {"_name": "fused_label_smoothed_cross_entropy", "report_accuracy": False,
                                           "ignore_prefix_size": 0, **criterion}})  # fmt: skip


@pytest.mark.parametrize(
    ("shuffled", "criterion", "message"),
    [
        ("nothing", {}, "--batch-classifier"),
        ("global", {}, "--batch-classifier"),
        ("added", {"_name": "label_smoothed_cross_entropy"}, "--batch-classifier"),
        ("added", {"report_accuracy": True}, "--batch-classifier"),
        ("added", {"ignore_prefix_size": 1}, "--batch-classifier"),
    ],
)
def test_where_nothing_teaches_it(shuffled, criterion, message):
    task = Namespace(shuffled_context=shuffled)
    with pytest.raises(UserError, match=message):
        check_combinations(Namespace(batch_classifier=True), task, options(**criterion))
    check_combinations(Namespace(batch_classifier=False), task, options(**criterion))
    check_combinations(Namespace(batch_classifier=True), Namespace(shuffled_context="added"), options())
