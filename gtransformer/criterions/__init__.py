"""Training criteria that fairseq lacks."""

from gtransformer import compat  # noqa: F401  (before anything of fairseq)
from gtransformer.criterions import fused_label_smoothed_cross_entropy  # noqa: F401
