"""Optimizers that fairseq lacks."""

from gtransformer.optim import adam_two_rates  # noqa: F401
