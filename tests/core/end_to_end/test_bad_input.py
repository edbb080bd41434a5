"""What cannot be of long context, in fairseq's commands as a user gives them: one sentence each, and no traceback."""

from __future__ import annotations

import pytest

from tests.commands import only_error, run
from tests.core.end_to_end.test_systems import GENERATION, PREPARED, SMALL, TASK

DATA = PREPARED / "bin"
SENTENCES = ["--instances", "disjoint", "--context-sentences", "0"]
ONE_UPDATE = ["--max-update", "1", "--disable-validation"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two models after one update, by their folders: of single sentences, and whose decoder sees one sentence."""
    root = tmp_path_factory.mktemp("models")
    for name, arch, *options in (
        ("sentences", "doc_transformer_mini", *SENTENCES),
        ("alone", "gtransformer_mini", "--encoder-ctxlayers=1", "--cross-ctxlayers=1", "--decoder-ctxlayers=0"),
    ):
        run("train", DATA, *TASK, "--arch", arch, *SMALL, *options, *ONE_UPDATE, f"--save-dir={root / name}")
    return root


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "sentences",
            ["--instances=sliding", "--context-sentences=2"],
            "the model was trained on single sentences of the target",
        ),
        ("alone", [], "the decoder of this model sees the current sentence alone"),
    ],
)
def test_strategies_that_need_the_targets_context(models, name, options, message):
    path = f"--path={models / name / 'checkpoint_last.pt'}"
    line = ["generate", DATA, *TASK, path, *GENERATION, "--strategy=sequential", *options]
    assert message in only_error(run(*line, status=1))
