"""Models, one package each."""

from gtransformer.models import (  # noqa: F401
    batch_readers,
    document_transformer,
    flat_transformer,
    gtransformer,
    transformer,
    window,
)
from gtransformer.models.common.model import SYSTEMS, DocumentModel, register

__all__ = ["SYSTEMS", "DocumentModel", "register"]
