"""The prepared corpus and its translations as fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.evaluation.support import HYPOTHESES, jsonl_lines, write_jsonl, write_prepared


@pytest.fixture
def prepared(tmp_path) -> Path:
    """The prepared corpus."""
    return write_prepared(tmp_path / "prepared")


@pytest.fixture
def hypotheses(tmp_path) -> Path:
    """The translations of all three instances."""
    return write_jsonl(tmp_path / "out.jsonl", jsonl_lines(HYPOTHESES))


@pytest.fixture
def encode(dictionary):
    """Sentences of words to token indices."""
    return lambda texts: [[dictionary.index(word) for word in text.split()] for text in texts]
