"""Training criteria that fairseq lacks."""

from gtransformer.criterions import fused_label_smoothed_cross_entropy  # noqa: F401
