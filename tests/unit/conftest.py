"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest

from tests.saved_model import make_model


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """A model directory; beside it lie the ``prepared`` corpus and the ``checkpoint.pt`` that it was made of."""
    return make_model(tmp_path_factory.mktemp("saved"))
