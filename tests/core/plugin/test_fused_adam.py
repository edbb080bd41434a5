"""Adam by PyTorch's fused kernel against fairseq's Adam: many steps, resumed training, half
precision.
"""

from __future__ import annotations

import pytest
import torch
from fairseq import optim
from fairseq.optim import AMPOptimizer, FP16Optimizer, MemoryEfficientFP16Optimizer
from omegaconf import OmegaConf

from gtransformer.plugin.optimizers import FUSED as NAME

SHAPES = ((30, 7), (5,), (11, 3))


def options(name: str, **changed):
    return {"_name": name, "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-5, "weight_decay": 0.1,
    "use_old_adam": False,
            "fp16_adam_stats": False, "tpu": False, "lr": [1e-2], **changed}  # fmt: skip


def common(**changed):
    """fairseq's options of mixed precision."""
    return {"bf16": False, "fp16_no_flatten_grads": True, "fp16_scale_window": 100,
    "fp16_init_scale": 4,
            "fp16_scale_tolerance": 0.0, "threshold_loss_scale": None, "min_loss_scale": 1e-4,
            **changed}  # fmt: skip


def parameters_of(dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES
    ]


def make(name: str, dtype=torch.float32, **changed):
    """An optimizer over parameters that are the same every time."""
    parameters = parameters_of(dtype)
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


@pytest.mark.parametrize(
    "dtype, clip, decay", [(torch.float32, 0.05, 0.1), (torch.float64, None, 0.1)]
)
def test_steps_are_fairseqs(dtype, clip, decay):
    results = {}
    for name in ("adam", NAME):
        optimiser, parameters = make(name, dtype, weight_decay=decay)
        results[name] = train(optimiser, parameters, range(60), clip), parameters
    assert results[NAME][0] == pytest.approx(results["adam"][0], rel=1e-5)
    assert_alike(results[NAME][1], results["adam"][1], 1e-6)
    assert all(
        (new - old).abs().max() > 1e-2
        for new, old in zip(parameters, parameters_of(dtype), strict=True)
    )


def test_a_training_resumes_exactly():
    whole, expected = make(NAME)
    train(whole, expected, range(20))
    first, parameters = make(NAME)
    train(first, parameters, range(10))
    second, resumed = make(NAME, lr=[7.0])
    with torch.no_grad():
        for own, other in zip(resumed, parameters, strict=True):
            own.copy_(other)
    second.load_state_dict(first.state_dict(), {})
    train(second, resumed, range(10, 20))
    assert_alike(resumed, expected, 0.0)
    other, _ = make(NAME, weight_decay=0.3)
    other.load_state_dict(first.state_dict(), {})
    assert other.param_groups[0]["weight_decay"] == 0.3, "the settings of the new command"


def amp_on_cpu(cfg, parameters):
    """fairseq's own, whose scaler is for CUDA, with one for the CPU."""
    amp = AMPOptimizer.build_optimizer(cfg, parameters)
    amp._grad_scaler = torch.amp.GradScaler("cpu", init_scale=cfg.common.fp16_init_scale)
    return amp


@pytest.mark.parametrize("build", [amp_on_cpu, FP16Optimizer.build_optimizer])
def test_a_scaled_loss_trains_as_one_that_is_not(build):
    """Of small gradients: divided by the scale twice they would vanish beside Adam's eps."""
    plain, expected = make(NAME, adam_eps=1e-8)
    parameters = parameters_of()
    chosen = {"common": common(fp16_init_scale=2**16), "optimizer": options(NAME, adam_eps=1e-8)}
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
    for name in ("adam", NAME):
        parameters = parameters_of(dtype)
        cfg = {"common": common(bf16=dtype == torch.bfloat16), "optimizer": options(name)}
        train(
            wrapper.build_optimizer(OmegaConf.create(cfg), parameters), parameters, range(12), 1.0
        )
        results[name] = parameters
    # Roundings to half precision may fall to either side.
    assert_alike(results[NAME], results["adam"], 1e-2)
    assert any(
        not torch.equal(new, old)
        for new, old in zip(results[NAME], parameters_of(dtype), strict=True)
    )
