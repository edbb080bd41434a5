"""Packages that only some systems need, and what to install where they are missing."""

from __future__ import annotations

from types import ModuleType

from gtransformer.errors import UserError


def import_transformers() -> ModuleType:
    """Hugging Face transformers; UserError, with what to install, if it is not there."""
    try:
        import transformers
    except ImportError:
        raise UserError("BERT needs the package transformers, an optional extra: pip install '.[bert]'") from None
    return transformers
