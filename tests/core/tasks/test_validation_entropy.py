"""--doc-attn-entropy: a validation logs the mean over its batches, training nothing; and the task stays as it was."""

from __future__ import annotations

import random
from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from omegaconf import OmegaConf
from torch import nn

from gtransformer.errors import UserError
from gtransformer.models.common.entropy import EntropyMeter
from gtransformer.tasks.translation_doc import TranslationDocTask
from gtransformer.tasks.validation import check_entropy_metric, measured
from tests.core.tasks import loaded
from tests.support import fairseqs_model, pad_batch, random_document, task_config, tiny_config, tiny_model, tiny_task


def sample(dictionary, seed: int, lengths: list[list[int]]) -> dict:
    """A batch as fairseq hands it to the task."""
    draw = random.Random(seed)
    source, target = ([random_document(draw, dictionary, row) for row in lengths] for _ in range(2))
    language, pad = dictionary.index("[de]"), dictionary.pad()
    inputs = {
        "src_tokens": pad_batch(source, pad, True),
        "src_lengths": torch.tensor([len(row) for row in source]),
        "prev_output_tokens": pad_batch(target, pad, False),
    }
    goal = [[*row[1:], language] for row in target]
    return {
        "id": torch.arange(len(lengths)),
        "net_input": inputs,
        "target": pad_batch(goal, pad, False),
        "ntokens": sum(map(len, goal)),
    }


@pytest.fixture
def batches(dictionary):
    return [sample(dictionary, 1, [[3, 1, 4], [2]]), sample(dictionary, 2, [[6, 2]])]


def validate(task, model, batches, summed: bool) -> dict[str, float]:
    """What fairseq logs of a validation, batch by batch or, as several workers do, of summed logs."""
    criterion = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)
    logs = [task.valid_step(batch, model, criterion)[2] for batch in batches]
    groups = [[{key: sum(log[key] for log in logs) for key in logs[0]}]] if summed else [[log] for log in logs]
    with metrics.aggregate(new_root=True) as found:
        for group in groups:
            task.reduce_metrics(group, criterion)
    return found.get_smoothed_values()


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("mode", ["partial", "full"])
def test_a_validation_logs_means_over_tokens_and_layers(dictionary, batches, mode, summed):
    task = tiny_task(dictionary, doc_attn_entropy=True, doc_mode=mode)
    model = tiny_model(dictionary, doc_mode=mode)
    logged = validate(task, model, batches, summed)
    meter = EntropyMeter()
    with torch.no_grad(), meter.on(model):
        for batch in batches:
            model(**batch["net_input"])
    expected = {f"entropy_{p}_{r}": tally.mean()[0] for (p, r), tally in meter.by_kind().items()}
    expected |= {f"entropy_{p}_{r}_flat": tally.flat / tally.queries for (p, r), tally in meter.by_kind().items()}
    assert {key for key in logged if key.startswith("entropy")} == set(expected)
    assert len(expected) == (12 if mode == "partial" else 6)
    for key, value in expected.items():
        assert logged[key] == pytest.approx(value, abs=1e-4), key
        check_entropy_metric(key, model)
    assert "loss" in logged
    check_entropy_metric("loss", model)
    with pytest.raises(UserError, match="--best-checkpoint-metric entropy_cross: "):
        check_entropy_metric("entropy_cross", model)


def test_what_a_model_does_not_have_selects_no_checkpoint(tmp_path):
    options = ["--doc-attn-entropy", "--doc-mode=full", "--best-checkpoint-metric=entropy_cross_group"]
    with pytest.raises(UserError, match="entropy_cross_global"):
        loaded.built(loaded.LEN48 / "bin", tmp_path, "gtransformer_mini", *options)


def test_it_changes_nothing_else(dictionary, batches):
    model = tiny_model(dictionary)
    with_it = validate(tiny_task(dictionary, doc_attn_entropy=True), model, batches, False)
    without = validate(tiny_task(dictionary), model, batches, False)
    assert not [key for key in without if "entropy" in key]
    without.pop("wps")  # speed
    assert without.items() <= with_it.items()
    assert not any(module._forward_hooks for module in model.modules())
    task, optimizer = tiny_task(dictionary, doc_attn_entropy=True), Namespace(backward=lambda loss: loss.backward())
    criterion = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)
    logs = task.train_step(batches[0], model, criterion, optimizer, update_num=1)[2]
    assert not [key for key in logs if "entropy" in key]


def test_a_wrapped_model_is_found_and_another_kind_refused(dictionary, batches):
    model = tiny_model(dictionary)
    with torch.no_grad(), measured(nn.ModuleDict({"module": model})) as logs:
        model(**batches[0]["net_input"])
    assert logs["_entropy_cross_group_queries"] == 3 * 18  # layers x tokens of the sentences, marks included
    with pytest.raises(UserError, match="--doc-attn-entropy is for the architectures gtransformer_"):
        with measured(nn.Linear(1, 1)):
            pass
    sentence = "architectures gtransformer_.*, not for TransformerModelBase"
    with pytest.raises(UserError, match=sentence), measured(fairseqs_model(dictionary)):
        pass


def test_a_validation_leaves_the_task_as_it_was(dictionary, batches):
    """With BLEU, too; its options cannot be changed."""
    cfg = OmegaConf.structured(task_config(eval_bleu=True, eval_bleu_args='{"beam": 2}', doc_attn_entropy=True))
    OmegaConf.set_readonly(cfg, True)
    task = TranslationDocTask(cfg, dictionary, dictionary)
    model = task.build_model(OmegaConf.structured(tiny_config(_name="gtransformer")), from_checkpoint=True)
    before = {name: id(value) for name, value in vars(task).items()}
    logged = [validate(task, model, batches, False) for _ in range(2)]
    for one in logged:
        one.pop("wps")  # speed
    assert logged[0] == logged[1]
    assert {"loss", "s_bleu", "d_bleu", "bleu", "entropy_cross_group"} <= set(logged[0])
    assert {name: id(value) for name, value in vars(task).items()} == before
