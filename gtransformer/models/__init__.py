"""Models, one package each."""

from gtransformer.models import document_transformer, gtransformer, lst, transformer, window  # noqa: F401
