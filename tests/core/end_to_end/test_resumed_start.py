"""``continue-once``: a training that goes on from another's checkpoint is what a longer one would have been."""

from __future__ import annotations

import pytest
import torch

from tests.commands import run
from tests.core.end_to_end.test_systems import PREPARED, SMALL, TASK, sentence_model  # noqa: F401

pytestmark = pytest.mark.slow
SINGLE = [*TASK, "--instances=disjoint", "--context-sentences=0", "--arch=doc_transformer_mini", *SMALL]


def test_as_if_never_interrupted(sentence_model, tmp_path):  # noqa: F811
    """To the bit, and it has a best checkpoint of its own."""
    run("train", PREPARED / "bin", *SINGLE, "--max-epoch=2", f"--save-dir={tmp_path / 'whole'}")
    start = [f"--continue-once={sentence_model}", "--reset-meters", "--max-epoch=2"]
    log = run("train", PREPARED / "bin", *SINGLE, *start, f"--save-dir={tmp_path / 'on'}")
    assert '"epoch": 2' in log and '"epoch": 1,' not in log
    one, other = (torch.load(tmp_path / name / "checkpoint_last.pt")["model"] for name in ("whole", "on"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert (tmp_path / "on" / "checkpoint_best.pt").is_file()
