"""Limits of a training that are none."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from gtransformer.errors import UserError
from gtransformer.tasks.training_end import check_limits


def test_limits():
    """To fairseq hours below 0 are no limit; after other negative limits it trains for one update."""
    check_limits(SimpleNamespace(max_update=0, max_epoch=3, stop_time_hours=-1.0))
    for name, value in (("max_update", -1), ("max_epoch", -1), ("stop_time_hours", math.nan)):
        with pytest.raises(UserError, match=f"--{name.replace('_', '-')} {value}: give more than 0, or 0 for no limit"):
            check_limits(SimpleNamespace(**{name: value}))
