"""Attention: ragged layout, the dense and the packed engine, projections and the gate."""

from gtransformer import compat  # noqa: F401  (before anything of fairseq)
