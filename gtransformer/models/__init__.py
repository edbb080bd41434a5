"""Models, one package each."""

from gtransformer.models import gtransformer  # noqa: F401
