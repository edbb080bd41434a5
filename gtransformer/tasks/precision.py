"""The precision in which a trained model multiplies when it translates."""

from __future__ import annotations

import torch

from gtransformer.errors import UserError
from gtransformer.modules.cpu.processor import has_bfloat16

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def check_precision(precision: str, device: torch.device) -> str:
    """``precision``, if a model can be used in it on this device; UserError if not."""
    if precision not in PRECISIONS:
        raise UserError(f"precision {precision!r} is unknown; give one of {', '.join(PRECISIONS)}")
    if precision == "float16" and device.type != "cuda":
        raise UserError("--fp16 is for GPUs, as is --precision float16, and this run has none; leave it out")
    if precision == "bfloat16" and device.type == "cpu" and not has_bfloat16():
        raise UserError(
            "--precision bfloat16: this processor has no instructions for it (AVX512-BF16 or AMX), so it would "
            "be slow; use --precision float32"
        )
    return precision


def model_options(precision: str) -> dict[str, str]:
    """The model's options for a precision; none for "auto", which leaves it what it was trained with.

    bfloat16 is that of ``--autocast``: products with weights that are converted once, while states, norms, softmax and
    log probabilities stay in float32. In float16 the whole model is converted, and there is nothing left to cast.
    """
    return {} if precision == "auto" else {"autocast": "bfloat16" if precision == "bfloat16" else "none"}
