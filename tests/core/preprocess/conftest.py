"""Fixtures of the preprocessing tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """``write(name, content)`` makes a file in the test's folder and returns its path."""

    def make(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@pytest.fixture
def shared() -> Path:
    """The folder of real corpora; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"real corpora not found at {SHARED}")
    return SHARED
