"""Adam by PyTorch's fused kernel, with one rate and with two (appendix C.1), against fairseq's."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from fairseq import optim
from fairseq.dataclass.configs import CommonConfig
from fairseq.optim import AMPOptimizer, FP16Optimizer, MemoryEfficientFP16Optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.plugin.optimizers import FUSED, TWO_RATES, mark_parameter

SHAPES = ((30, 7), (5,), (11, 3))
SCALE = 0.2  # of the rate of pretrained parameters: the first and the last


def options(name: str, **changed):
    return {
        "_name": name,
        "adam_betas": "(0.9, 0.98)",
        "adam_eps": 1e-5,
        "weight_decay": 0.1,
        "use_old_adam": False,
        "fp16_adam_stats": False,
        "tpu": False,
        "lr": [1e-2],
        **changed,
    }


def common(**changed):
    """fairseq's options of mixed precision."""
    given = {"fp16_no_flatten_grads": True, "fp16_scale_window": 100, "fp16_init_scale": 4}
    return {**vars(CommonConfig()), **given, **changed}


def parameters_of(dtype=torch.float32, decay_fresh=None) -> list[torch.nn.Parameter]:
    """The same every time."""
    generator = torch.Generator().manual_seed(1)
    found = [
        torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES
    ]
    for number, parameter in enumerate(found):
        mark_parameter(parameter, number == 1, SCALE, decay_fresh)
    return found


def make(name: str, parameters=None, **changed):
    """An optimizer and its parameters."""
    parameters = parameters or parameters_of()
    return optim.build_optimizer(OmegaConf.create(options(name, **changed)), parameters), parameters


def train(optimiser, parameters, steps, clip: float | None = 0.0, size: float = 1.0) -> list[float]:
    """Steps as of fairseq's trainer, the same for the same numbers; the norms that clipping
    reports.

    ``clip`` None: none of that, which fairseq does not do in float64.
    """
    norms = []
    for number in steps:
        optimiser.zero_grad()
        wide = [p.to(torch.promote_types(p.dtype, torch.float32)) for p in parameters]
        loss = sum((p * (index + number)).sin().sum() for index, p in enumerate(wide))
        optimiser.backward(size * 10.0 ** -(number % 4) * loss)
        optimiser.multiply_grads(1 / 7)
        if clip is not None:
            norms.append(float(optimiser.clip_grad_norm(clip)))
        optimiser.set_lr(1e-2 / (1 + number))
        optimiser.step()
    return norms


def assert_alike(found, expected, tolerance: float):
    """``tolerance``: of the largest value."""
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= tolerance * other.abs().max()


def moved(parameters) -> list[torch.Tensor]:
    """How far from where they begin."""
    begin = parameters_of(parameters[0].dtype)
    return [(new - old).detach() for new, old in zip(parameters, begin, strict=True)]


@pytest.mark.parametrize(("dtype", "clip"), [(torch.float32, 0.05), (torch.float64, None)])
def test_steps_are_fairseqs(dtype, clip):
    results = {}
    for name in ("adam", FUSED):
        optimiser, parameters = make(name, parameters_of(dtype))
        results[name] = train(optimiser, parameters, range(60), clip), parameters
    assert results[FUSED][0] == pytest.approx(results["adam"][0], rel=1e-5)
    assert_alike(results[FUSED][1], results["adam"][1], 1e-6)
    assert all(one.abs().max() > 1e-2 for one in moved(parameters))


def test_fresh_parameters_move_as_far_and_pretrained_ones_a_fifth():
    expected, found = (make(name, weight_decay=0.0) for name in ("adam", TWO_RATES))
    for one in (expected, found):
        train(*one, [1])
    steps = [scale * one for scale, one in zip((SCALE, 1, SCALE), moved(expected[1]), strict=True)]
    assert_alike(moved(found[1]), steps, 1e-3)


def test_the_scheduler_moves_both_rates():
    optimiser, (old, fresh, _) = make(TWO_RATES, lr=[5e-4])
    cfg = {"_name": "inverse_sqrt", "warmup_updates": 4000, "warmup_init_lr": 1e-7, "lr": [5e-4]}
    scheduler = build_lr_scheduler(OmegaConf.create(cfg), optimiser)
    for updates, peak in ((4000, 5e-4), (16000, 2.5e-4)):
        scheduler.step_update(updates)
        rates = {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
        assert rates[id(fresh)] == optimiser.get_lr() == pytest.approx(peak)
        assert rates[id(old)] == pytest.approx(SCALE * peak)


@pytest.mark.parametrize("name", [FUSED, TWO_RATES])
def test_a_training_resumes_exactly(name):
    """With the scales and decays that it is given, and the moments of its optimizer's state."""
    whole, expected = make(name)
    train(whole, expected, range(20))
    first, parameters = make(name)
    train(first, parameters, range(10))
    second, resumed = make(name, lr=[7.0])
    with torch.no_grad():
        for own, other in zip(resumed, parameters, strict=True):
            own.copy_(other)
    second.load_state_dict(first.state_dict(), {})
    train(second, resumed, range(10, 20))
    assert_alike(resumed, expected, 0.0)
    other, _ = make(name, parameters_of(decay_fresh=0.4), weight_decay=0.3)
    other.load_state_dict(first.state_dict(), {})
    decays = {group.get("lr_scale"): group["weight_decay"] for group in other.param_groups}
    assert decays == ({None: 0.3} if name == FUSED else {SCALE: 0.3, 1.0: 0.4})


def test_the_state_of_fairseqs_adam_is_continued():
    """With gradients beside which eps counts."""
    before, parameters = make("adam", parameters_of(torch.float64), adam_eps=1e-4)
    train(before, parameters, range(50), None, 1e-3)
    results = []
    for name in ("adam", FUSED):
        after, own = make(name, deepcopy(parameters), adam_eps=1e-4)
        after.load_state_dict(deepcopy(before.state_dict()), {})
        train(after, own, range(50, 53), None, 1e-3)
        results.append([new - old for new, old in zip(own, parameters, strict=True)])
    assert_alike(*results, 1e-6)
    # A kernel on a GPU wants the count of updates there.
    after, own = make(FUSED, [p.detach().to("meta").requires_grad_() for p in parameters])
    after.load_state_dict(deepcopy(before.state_dict()), {})
    assert after.optimizer.state[own[0]]["step"].is_meta


def test_unmarked_parameters_are_refused():
    """Such as the one flat parameter that fairseq's --fp16 makes of all."""
    with pytest.raises(UserError, match="--fp16-no-flatten-grads"):
        make(TWO_RATES, [torch.nn.Parameter(torch.ones(3))])


def amp_on_cpu(cfg, parameters):
    """fairseq's own, whose scaler is for CUDA, with one for the CPU."""
    amp = AMPOptimizer.build_optimizer(cfg, parameters)
    amp._grad_scaler = torch.amp.GradScaler("cpu", init_scale=cfg.common.fp16_init_scale)
    return amp


@pytest.mark.parametrize("build", [amp_on_cpu, FP16Optimizer.build_optimizer])
def test_a_scaled_loss_trains_as_one_that_is_not(build):
    """Of small gradients: divided by the scale twice they would vanish beside Adam's eps."""
    plain, expected = make(FUSED, adam_eps=1e-8)
    parameters = parameters_of()
    chosen = {"common": common(fp16_init_scale=2**16), "optimizer": options(FUSED, adam_eps=1e-8)}
    scaled = build(OmegaConf.create(chosen), parameters)
    norms = [
        train(one, own, range(5), 1e-3, 1e-3)
        for one, own in ((plain, expected), (scaled, parameters))
    ]
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)
    assert_alike(parameters, expected, 1e-5)


@pytest.mark.parametrize("wrapper", [FP16Optimizer, MemoryEfficientFP16Optimizer])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_under_fairseqs_half_precision(wrapper, dtype):
    results = {}
    for name in ("adam", FUSED):
        parameters = results[name] = parameters_of(dtype)
        cfg = {"common": common(bf16=dtype == torch.bfloat16), "optimizer": options(name)}
        train(
            wrapper.build_optimizer(OmegaConf.create(cfg), parameters), parameters, range(12), 1.0
        )
    # Roundings to half precision may fall to either side.
    assert_alike(results[FUSED], results["adam"], 1e-2)
    assert any(one.any() for one in moved(parameters))


def test_an_update_that_is_not_finite_is_skipped_and_seen_by_the_next():
    """The norm that the host reads is that of the update before; the device needs no host."""
    optimiser, parameters = make(FUSED)
    steady, others = make(FUSED)
    read = []
    for scale in (1.0, float("inf"), 2.0):
        for one, own in ((optimiser, parameters), (steady, others)):
            one.zero_grad()
            one.backward(sum(p.square().sum() for p in own))
        optimiser.multiply_grads(scale)
        norm = optimiser.clip_grad_norm(0.0)
        read.append(float(optimiser.norm_before(norm)))
        optimiser.step()
        if scale != float("inf"):
            steady.multiply_grads(scale)
            steady.step()
        for found, expected in zip(parameters, others, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert read[0] == read[1] and read[2] == float("inf")
