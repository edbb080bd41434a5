"""What cannot be of long context, in fairseq's commands as a user gives them: one sentence each, and no traceback."""

from __future__ import annotations

from tests.commands import only_error, run
from tests.core.end_to_end.test_systems import GENERATION, PREPARED, SMALL, TASK

DATA = PREPARED / "bin"
SENTENCES = ["--instances", "disjoint", "--context-sentences", "0"]
ONE_UPDATE = ["--max-update", "1", "--disable-validation"]


def test_a_strategy_that_needs_the_targets_context(tmp_path):
    """The model has been trained on single sentences."""
    arch = ["--arch", "doc_transformer_mini"]
    run("train", DATA, *TASK, *arch, *SMALL, *SENTENCES, *ONE_UPDATE, f"--save-dir={tmp_path}")
    options = ["--strategy=sequential", "--instances=sliding", "--context-sentences=2"]
    line = ["generate", DATA, *TASK, f"--path={tmp_path / 'checkpoint_last.pt'}", *GENERATION, *options]
    assert "the model was trained on single sentences of the target" in only_error(run(*line, status=1))
