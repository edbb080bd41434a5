"""What fairseq sees of the models and of data: registration, datasets, checkpoints and model directories."""

from gtransformer import compat  # noqa: F401  (before anything of fairseq)
