"""Optimizers that fairseq lacks."""

from gtransformer.optim import adam_two_rates, fused_adam  # noqa: F401
