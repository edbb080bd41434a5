"""Models, one package each."""

from gtransformer import compat  # noqa: F401  (before anything of fairseq)
from gtransformer.models import (  # noqa: F401
    batch_readers,
    document_transformer,
    flat_transformer,
    gtransformer,
    transformer,
    window,
)
