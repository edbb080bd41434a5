"""Models, one package each."""

from gtransformer.models import document_transformer, flat_transformer, gtransformer, lst, transformer, window  # noqa: F401
