"""Records of finished work: JSON files that the stages of recipes and experiments write after their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json


def read_record(path: Path) -> dict[str, Any]:
    """Return the record of some work; empty if there is none, or it cannot be read."""
    try:
        record = read_json(path)
    except UserError:
        return {}
    return record if isinstance(record, dict) else {}
