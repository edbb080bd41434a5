"""The task translation_doc."""

from gtransformer.tasks import no_score, translation_doc  # noqa: F401
