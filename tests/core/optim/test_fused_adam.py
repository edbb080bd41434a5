"""Adam in one pass against fairseq's Adam: many steps, checkpoints of one loaded by the other, half precision."""

from __future__ import annotations

import pytest
import torch
from fairseq import optim
from fairseq.optim import AMPOptimizer, FP16Optimizer, MemoryEfficientFP16Optimizer
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.optim.fused_adam import NAME

SHAPES = ((30, 7), (5,), (11, 3))


def options(name: str, **changed):
    return {"_name": name, "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-5, "weight_decay": 0.1, "use_old_adam": False,
            "fp16_adam_stats": False, "tpu": False, "lr": [1e-2], **changed}  # fmt: skip


def make(name: str, dtype=torch.float32, **changed):
    """An optimizer over parameters that are the same every time."""
    generator = torch.Generator().manual_seed(1)
    parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]
    return optim.build_optimizer(OmegaConf.create(options(name, **changed)), parameters), parameters


def train(optimiser, parameters, steps, clip: float = 0.0) -> list[float]:
    """Steps with gradients of many sizes, the same for the same numbers; the norms that clipping reports."""
    norms = []
    for number in steps:
        generator = torch.Generator().manual_seed(number)
        optimiser.zero_grad()
        for index, parameter in enumerate(parameters):
            size = 10.0 ** -(number % 4)
            if index or number % 3:  # the first parameter has a gradient in two of three steps
                parameter.grad = (size * torch.randn(parameter.shape, generator=generator)).to(parameter.dtype)
        optimiser.multiply_grads(1 / 7)
        norms.append(float(optimiser.clip_grad_norm(clip)))
        optimiser.set_lr(1e-2 / (1 + number))
        optimiser.step()
    return norms


def assert_alike(found, expected, rtol=1e-4, atol=1e-6):
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one.float(), other.float(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("clip", [0.0, 0.05])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_fairseqs(clip, decay):
    results = {}
    for name in ("adam", NAME):
        optimiser, parameters = make(name, weight_decay=decay)
        before = [parameter.detach().clone() for parameter in parameters]
        results[name] = train(optimiser, parameters, range(60), clip), parameters
    assert results[NAME][0] == pytest.approx(results["adam"][0], rel=1e-5)
    assert_alike(results[NAME][1], results["adam"][1])
    assert all((new - old).abs().max() > 1e-2 for new, old in zip(results[NAME][1], before, strict=True))


def test_the_kernel_is_what_steps(monkeypatch):
    """In float32; in half precision fairseq's own steps are taken."""
    from gtransformer.optim import fused_adam

    calls = []
    kernel = fused_adam.adamw
    monkeypatch.setattr(fused_adam, "adamw", lambda *a, **k: calls.append(k["fused"]) or kernel(*a, **k))
    train(*make(NAME), range(1, 3))
    assert calls == [True, True]
    train(*make(NAME, torch.bfloat16), range(1, 3))
    assert calls == [True, True]


@pytest.mark.parametrize("names", [("adam", NAME), (NAME, "adam"), (NAME, NAME)])
def test_training_goes_on_with_either(names):
    """The state and the name that fairseq compares when it resumes."""
    whole, expected = make("adam")
    train(whole, expected, range(20))
    first, parameters = make(names[0])
    train(first, parameters, range(10))
    saved = first.state_dict()
    second, resumed = make(names[1], lr=[7.0])
    with torch.no_grad():
        for own, other in zip(resumed, parameters, strict=True):
            own.copy_(other)
    second.load_state_dict(saved, second.optimizer_config)
    train(second, resumed, range(10, 20))
    assert_alike(resumed, expected)
    assert type(first).__name__ == type(second).__name__ == "FairseqAdam"
    assert {index: state["step"] for index, state in second.state_dict()["state"].items()} == {0: 13, 1: 20, 2: 20}


def common(**changed):
    """fairseq's options of mixed precision."""
    return {"bf16": False, "fp16_no_flatten_grads": True, "fp16_scale_window": 100, "fp16_init_scale": 4,
            "fp16_scale_tolerance": 0.0, "threshold_loss_scale": None, "min_loss_scale": 1e-4, **changed}  # fmt: skip


def amp_on_cpu(cfg, parameters):
    """fairseq's own, whose scaler is for CUDA, with one for the CPU."""
    amp = AMPOptimizer.build_optimizer(cfg, parameters)
    amp._grad_scaler = torch.amp.GradScaler("cpu", init_scale=cfg.common.fp16_init_scale)
    return amp


@pytest.mark.parametrize("name", ["adam", NAME])
@pytest.mark.parametrize("clip", [0.0, 1e-3])
@pytest.mark.parametrize(
    "build", [amp_on_cpu, FP16Optimizer.build_optimizer, MemoryEfficientFP16Optimizer.build_optimizer]
)
def test_a_scaled_loss_trains_as_one_that_is_not(build, clip, name):
    """Of small gradients: divided by the scale twice they would vanish beside Adam's eps."""
    results = []
    for scale in (None, 2**16):
        optimiser, parameters = make(name, adam_eps=1e-8)
        if scale:
            chosen = {"common": common(fp16_init_scale=scale), "optimizer": options(name, adam_eps=1e-8)}
            optimiser = build(OmegaConf.create(chosen), parameters)
        before, norms = [parameter.detach().clone() for parameter in parameters], []
        for number in range(5):
            optimiser.zero_grad()
            optimiser.backward(sum((1e-3 * (p + number).sin()).sum() for p in parameters))
            optimiser.multiply_grads(1 / 7)
            norms.append(float(optimiser.clip_grad_norm(clip)))
            optimiser.step()
        results.append((norms, [new - old for new, old in zip(parameters, before, strict=True)]))
    assert results[1][0] == pytest.approx(results[0][0], rel=1e-4) and min(results[0][0]) > 1e-5
    assert_alike(results[1][1], results[0][1], rtol=1e-3, atol=1e-6)
    assert max(moved.abs().max() for moved in results[0][1]) > 1e-2


@pytest.mark.parametrize("wrapper", [FP16Optimizer, MemoryEfficientFP16Optimizer])
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_under_fairseqs_half_precision(wrapper, precision):
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    results = {}
    for name in ("adam", NAME):
        _, parameters = make(name, dtype)
        cfg = OmegaConf.create({"common": common(bf16=precision == "bf16"), "optimizer": options(name)})
        optimiser = wrapper.build_optimizer(cfg, parameters)
        for number in range(12):
            optimiser.zero_grad()
            optimiser.backward(sum((p.float() * (index + number)).sin().sum() for index, p in enumerate(parameters)))
            optimiser.multiply_grads(0.5)
            optimiser.clip_grad_norm(1.0)
            optimiser.step()
        results[name] = parameters
    # Roundings to half precision may fall to either side.
    assert_alike(results[NAME], results["adam"], rtol=1e-2, atol=1e-2)
    assert any(not torch.equal(new, old) for new, old in zip(results[NAME], make(NAME, dtype)[1], strict=True))


def test_a_factor_does_not_outlive_its_gradients():
    """After an overflow, say: gradients are dropped, and so is what they were to be multiplied by."""
    results = []
    for interrupted in (False, True):
        optimiser, parameters = make(NAME)
        if interrupted:
            optimiser.multiply_grads(1e6)
        train(optimiser, parameters, range(3))
        results.append(parameters)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("option", ["use_old_adam", "fp16_adam_stats"])
def test_other_implementations_are_refused(option):
    with pytest.raises(UserError, match=option.replace("_", "-")):
        make(NAME, **{option: True})


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_step_that_amp_leaves_out_leaves_nothing_behind(bad):
    """After an overflow fairseq's AMPOptimizer tells PyTorch's optimizer alone to forget the gradients."""
    found = []
    for name in ("adam", NAME):
        _, parameters = make(name)
        amp = amp_on_cpu(OmegaConf.create({"common": common(), "optimizer": options(name)}), parameters)
        for value in (1.0, bad, 1.0, 1.0):
            amp.zero_grad()
            amp.backward(sum((p * value).sum() for p in parameters))
            amp.multiply_grads(0.5)
            try:
                amp.clip_grad_norm(1.0)
            except OverflowError:
                assert value == bad
            amp.step()
        found.append(parameters)
    for one, other in zip(*found, strict=True):
        assert other.isfinite().all() and torch.allclose(one, other, rtol=1e-5, atol=1e-6)
