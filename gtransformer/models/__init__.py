"""Models, one package each."""

from gtransformer.models import gtransformer, lst, transformer, window  # noqa: F401
