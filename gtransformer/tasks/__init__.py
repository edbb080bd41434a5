"""The task translation_doc."""

from gtransformer.tasks import translation_doc  # noqa: F401
