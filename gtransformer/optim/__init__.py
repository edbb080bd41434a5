"""Optimizers that fairseq lacks."""

from gtransformer import compat  # noqa: F401  (before anything of fairseq)
from gtransformer.optim import adam_two_rates, fused_adam  # noqa: F401
