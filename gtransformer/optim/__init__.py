"""Optimizers and learning rates that fairseq lacks."""

from gtransformer.optim import adam_two_rates, fused_adam, linear_by_time  # noqa: F401
