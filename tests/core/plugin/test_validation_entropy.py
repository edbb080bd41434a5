"""--doc-attn-entropy: a validation logs the mean over its batches, training nothing; and the task
stays as it was.
"""

from __future__ import annotations

import math
import random
from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from omegaconf import OmegaConf

from gtransformer.plugin.task import TranslationDocTask
from tests.support import (
    model_options,
    pad_batch,
    random_document,
    task_config,
    tiny_model,
    tiny_task,
    trainable,
)


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
    """What fairseq logs of a validation, batch by batch or, as several workers do, of summed
    logs.
    """
    criterion = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)
    logs = [task.valid_step(batch, model, criterion)[2] for batch in batches]
    groups = (
        [[{key: sum(log[key] for log in logs) for key in logs[0]}]]
        if summed
        else [[log] for log in logs]
    )
    with metrics.aggregate(new_root=True) as found:
        for group in groups:
            task.reduce_metrics(group, criterion)
    return found.get_smoothed_values()


@pytest.mark.parametrize("summed", [False, True])
def test_a_validation_logs_means_over_tokens_and_layers(dictionary, batches, summed):
    """Of every attention; of a cross-attention they are worked out by loops, without masks or
    engines.
    """
    model = trainable(tiny_model(dictionary, decoder_layers=2, cross_ctxlayers=1))
    kept = []
    for layer in model.decoder.layers:
        layer.encoder_attn_local.register_forward_hook(
            lambda module, inputs, output: kept.append((module, inputs))
        )
    logged = validate(tiny_task(dictionary, doc_attn_entropy=True), model, batches, summed)
    bits, flat = [], []
    for module, (x, memory, pattern) in kept:
        sides = module.q_proj(x), module.k_proj(memory)
        q, k = (side.unflatten(-1, (module.heads, -1)).double() for side in sides)
        queries, keys = pattern.reach.queries, pattern.reach.keys
        for i in range(len(q)):
            own = queries.doc[i], queries.tag[i]
            seen = [j for j in range(len(k)) if (keys.doc[j], keys.tag[j]) == own]
            scores = [
                torch.stack([q[i, head] @ k[j, head] / math.sqrt(8) for j in seen])
                for head in range(2)
            ]
            weights = sum(torch.softmax(one, dim=0) / 2 for one in scores)
            bits.append(-sum(p * math.log2(p) for p in weights.tolist()))
            flat.append(math.log2(len(seen)))
    assert logged["entropy_cross_group"] == pytest.approx(sum(bits) / len(bits), abs=1e-4)
    assert logged["entropy_cross_group_flat"] == pytest.approx(sum(flat) / len(flat), abs=1e-4)
    kinds = [
        f"{part}_{reach}"
        for part in ("encoder", "decoder", "cross")
        for reach in ("group", "global")
    ]
    assert {key for key in logged if "entropy" in key} == {
        f"entropy_{k}{end}" for k in kinds for end in ("", "_flat")
    }
    assert "loss" in logged


def test_it_changes_nothing_else(dictionary, batches):
    model = trainable(tiny_model(dictionary))
    with_it = validate(tiny_task(dictionary, doc_attn_entropy=True), model, batches, False)
    without = validate(tiny_task(dictionary), model, batches, False)
    assert not [key for key in without if "entropy" in key]
    without.pop("wps")  # speed
    assert without.items() <= with_it.items()
    assert not any(module._forward_hooks for module in model.modules())
    task, optimizer = (
        tiny_task(dictionary, doc_attn_entropy=True),
        Namespace(backward=lambda loss: loss.backward()),
    )
    criterion = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)
    logs = task.train_step(batches[0], model, criterion, optimizer, update_num=1)[2]
    assert not [key for key in logs if "entropy" in key]


def test_a_validation_leaves_the_task_as_it_was(dictionary, batches):
    """With BLEU, too; its options cannot be changed."""
    cfg = OmegaConf.structured(
        task_config(eval_bleu=True, eval_bleu_args='{"beam": 2}', doc_attn_entropy=True)
    )
    OmegaConf.set_readonly(cfg, True)
    task = TranslationDocTask(cfg, dictionary, dictionary)
    model = task.build_model(model_options(), from_checkpoint=True)
    before = {name: id(value) for name, value in vars(task).items()}
    logged = [validate(task, model, batches, False) for _ in range(2)]
    for one in logged:
        one.pop("wps")  # speed
    assert logged[0] == logged[1]
    assert {"loss", "s_bleu", "d_bleu", "bleu", "entropy_cross_group"} <= set(logged[0])
    assert {name: id(value) for name, value in vars(task).items()} == before
