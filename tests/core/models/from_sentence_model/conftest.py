"""Fixtures of models that are converted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bert import skip_without_transformers
from tests.core.models.from_sentence_model.hf_folders import lines_of
from tests.support import train_pieces


@pytest.fixture(scope="session")
def pieces(tmp_path_factory) -> Path:
    """A folder with ``en.model``, ``de.model`` and ``both.model``; they have different pieces."""
    skip_without_transformers()
    folder = tmp_path_factory.mktemp("pieces")
    for name, langs in {"en": ["en"], "de": ["de"], "both": ["en", "de"]}.items():
        train_pieces(folder / f"{name}.model", lines_of(*langs), 60)
    return folder
