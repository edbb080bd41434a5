"""Two learning rates (appendix C.1): how far each group moves, schedulers, saving, and what is
refused.
"""

from __future__ import annotations

import random

import pytest
import torch
from fairseq import optim
from fairseq.optim.lr_scheduler import build_lr_scheduler
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.models.common.pretrained import is_transformers
from gtransformer.plugin.optimizers import TWO_RATES as NAME
from gtransformer.plugin.optimizers import mark_parameter
from tests.support import pad_batch, random_document, tiny_model

SCALE = 0.2


def documents(dictionary):
    """Source and decoder input of two documents."""
    draw = random.Random(1)
    pairs = [
        [random_document(draw, dictionary, lengths) for _ in range(2)]
        for lengths in ([3, 2], [1, 4, 2])
    ]
    source, target = zip(*pairs, strict=True)
    pad = dictionary.pad()
    return pad_batch(source, pad, left=True), pad_batch(target, pad, left=False)


def optimizer(parameters, name: str = NAME, lr: float = 1e-3, **options):
    cfg = {"_name": name, "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "weight_decay": 0.0,
    "use_old_adam": False,
           "fp16_adam_stats": False, "tpu": False, "lr": [lr], **options}  # fmt: skip
    return optim.build_optimizer(OmegaConf.create(cfg), list(parameters))


def marked(model, **options):
    for name, parameter in model.named_parameters():
        mark_parameter(parameter, not is_transformers(name), SCALE, **options)
    return model


def step(model, optimiser, pairs):
    optimiser.zero_grad()
    source, previous = pairs
    logits = model(source, None, previous)[0]
    optimiser.backward(logits.logsumexp(-1).sum())
    optimiser.step()


def test_the_groups_move_by_the_expected_ratio(dictionary):
    """Against fairseq's Adam with one rate: fresh parameters move as far, pretrained ones a fifth
    as far.
    """
    pairs = documents(dictionary)
    moved = {}
    for name in ("adam", NAME):
        model = marked(tiny_model(dictionary))
        before = {key: value.detach().clone() for key, value in model.named_parameters()}
        step(model, optimizer(model.parameters(), name), pairs)
        moved[name] = {key: value.detach() - before[key] for key, value in model.named_parameters()}
    compared = {True: 0, False: 0}
    for key, expected in moved["adam"].items():
        scale = 1.0 if not is_transformers(key) else SCALE
        assert torch.allclose(moved[NAME][key], scale * expected, rtol=1e-3, atol=1e-7), key
        compared[not is_transformers(key)] += int(expected.abs().max() > 5e-4)
    assert min(compared.values()) > 20


def test_the_scheduler_moves_both_rates():
    fresh, old = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    mark_parameter(fresh, True, SCALE)
    mark_parameter(old, False, SCALE)
    optimiser = optimizer([old, fresh], lr=5e-4)
    cfg = {"_name": "inverse_sqrt", "warmup_updates": 4000, "warmup_init_lr": 1e-7, "lr": [5e-4]}
    scheduler = build_lr_scheduler(OmegaConf.create(cfg), optimiser)
    for updates, peak in ((4000, 5e-4), (16000, 2.5e-4)):
        scheduler.step_update(updates)
        rates = {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
        assert rates[id(fresh)] == pytest.approx(peak) and rates[id(old)] == pytest.approx(
            SCALE * peak
        )
        assert optimiser.get_lr() == pytest.approx(peak)


def test_weight_decay_of_fresh_parameters_alone():
    fresh, old = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    mark_parameter(fresh, True, SCALE, decay_fresh=0.5)
    mark_parameter(old, False, SCALE, decay_fresh=0.5)
    optimiser = optimizer([old, fresh], lr=0.1)
    optimiser.set_lr(0.1)
    for parameter in (fresh, old):
        parameter.grad = torch.zeros(2)
    optimiser.step()
    assert fresh.tolist() == pytest.approx([0.95, 0.95]) and old.tolist() == [1.0, 1.0]


def test_a_resumed_training_has_the_scales_and_decays_that_it_is_given(dictionary):
    """Not those of its optimizer's state, whose moments it takes."""
    model = marked(tiny_model(dictionary), decay_fresh=0.1)
    before = optimizer(model.parameters())
    step(model, before, documents(dictionary))
    after = optimizer(marked(model, decay_fresh=0.3).parameters())
    after.load_state_dict(before.state_dict())
    assert {group["lr_scale"]: group["weight_decay"] for group in after.param_groups} == {
        1.0: 0.3,
        SCALE: 0.0,
    }
    for parameter in model.parameters():
        moments = (one.optimizer.state[parameter]["exp_avg"] for one in (before, after))
        assert torch.equal(*moments)


def test_unmarked_parameters_are_refused():
    """Such as the one flat parameter that fairseq's --fp16 makes of all."""
    with pytest.raises(UserError, match="--fp16-no-flatten-grads"):
        optimizer([torch.nn.Parameter(torch.ones(3))])
