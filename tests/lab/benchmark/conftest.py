"""Fixtures of the benchmark's tests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gtransformer.lab.benchmark import measure
from tests import processes


@pytest.fixture
def forked_workers(monkeypatch):
    """Workers are forked from the server of the tests' commands, which has imported what each would import anew."""
    monkeypatch.setattr(measure, "multiprocessing", SimpleNamespace(get_context=lambda _method: processes.server()))
