"""Fixtures of models that are converted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bert import skip_without_transformers
from tests.core.models.from_sentence_model.hf_folders import train_pieces


@pytest.fixture(scope="session")
def pieces(tmp_path_factory) -> Path:
    """A folder with models of SentencePiece."""
    skip_without_transformers()
    return train_pieces(tmp_path_factory.mktemp("pieces"))
