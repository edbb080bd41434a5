"""Fixtures of the benchmark's tests."""

import multiprocessing
from types import SimpleNamespace

import pytest

from gtransformer.lab.benchmark import measure


@pytest.fixture
def forked_workers(monkeypatch):
    """Workers are forked from this process, which has imported what each would import anew."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(measure, "multiprocessing", SimpleNamespace(get_context=lambda _method: fork))
