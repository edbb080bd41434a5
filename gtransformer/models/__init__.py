"""Models, one package each."""

from gtransformer.models import (  # noqa: F401
    docflat,
    document_transformer,
    flat_transformer,
    gtransformer,
    lst,
    mbe,
    transformer,
    window,
)
