"""The precision of products in translation."""

from __future__ import annotations

import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.modules.kernels import quantise
from gtransformer.modules.processor import has_bfloat16, has_int8
from gtransformer.search.strategies import PRECISIONS


def check_precision(precision: str, device: torch.device) -> str:
    """Return ``precision``. Raise UserError if a model cannot be used in it on this device."""
    if precision not in PRECISIONS:
        raise UserError(f"precision {precision!r} is unknown; give one of {', '.join(PRECISIONS)}")
    if precision == "float16" and device.type != "cuda":
        raise UserError("--precision float16 is for GPUs, and this run has none; leave it out")
    if precision == "bfloat16" and device.type == "cpu" and not has_bfloat16():
        raise UserError(
            "--precision bfloat16: this processor has no instructions for it (AVX512-BF16 or AMX), "
            "so it would "
            "be slow; use --precision float32"
        )
    if precision == "int8" and device.type != "cpu":
        raise UserError(
            "--precision int8 is for CPUs, and this run has a GPU; use --precision float16, or "
            "--cpu"
        )
    if precision == "int8" and not has_int8():
        raise UserError(
            "--precision int8: this processor has no instructions for it (AVX2); leave it out"
        )
    return precision


def model_options(precision: str) -> dict[str, str]:
    """Return the model's options for a precision; none for "auto", which keeps the precision of
    training.

    bfloat16 is ``--autocast``: matrix products with converted weights, while states, norms, softmax
    and log probabilities stay in float32. For float16 the whole model is converted, for int8 its
    linear layers are (``kernels.quantise``), so that autocast is off.
    """
    return (
        {}
        if precision == "auto"
        else {"autocast": "bfloat16" if precision == "bfloat16" else "none"}
    )


def convert_to(precision: str, model: nn.Module) -> None:
    """Convert a loaded model to float16 or int8; in other precisions it stays as it is.

    Raises UserError for int8 and a model that has no linear layers of this package.
    """
    if precision == "float16":
        model.half()
    if precision == "int8" and not quantise(model):
        raise UserError(
            f"--precision int8: {type(model).__name__} is no model of this package; leave it out"
        )
