"""What cannot be of long context, in fairseq's commands as a user gives them: one sentence each, and no traceback."""

from __future__ import annotations

import shutil

import pytest

from tests.commands import only_error, run
from tests.core.end_to_end.test_systems import GENERATION, PREPARED, SMALL, TASK

DATA = PREPARED / "bin"
PARTS = ["--instances", "parts", "--instance-tokens", "40"]
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


def train(arch: str, *options: object) -> str:
    return run("train", DATA, *TASK, "--arch", arch, *SMALL, *ONE_UPDATE, *options, status=1)


def test_training_does_not_go_on_from_another_system(models, tmp_path):
    """Nor where the parameters fit: windows with absolute positions have those of the plain Transformer."""
    message = "a checkpoint of doc_transformer_mini, which training of window_transformer_mini cannot resume from"
    absolute = ["window_transformer_mini", "--window-positions=absolute", *PARTS]
    shutil.copytree(models / "sentences", tmp_path / "same")
    assert message in only_error(train(*absolute, f"--save-dir={tmp_path / 'same'}"))
    given = f"--restore-file={models / 'sentences' / 'checkpoint_last.pt'}"
    assert message in only_error(train(*absolute, given, f"--save-dir={tmp_path / 'new'}"))
    fitting = [*absolute, "--load-partial", f"--finetune-from-model={models / 'sentences' / 'checkpoint_last.pt'}"]
    assert message in only_error(train(*fitting, f"--save-dir={tmp_path / 'same'}"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "sentences",
            ["--instances=sliding", "--context-sentences=2"],
            "the model was trained on single sentences of the target, without context; leave --strategy out",
        ),
        ("alone", [], "the decoder of this model sees the current sentence alone"),
    ],
)
def test_strategies_that_need_the_targets_context(models, name, options, message):
    path = f"--path={models / name / 'checkpoint_last.pt'}"
    line = ["generate", DATA, *TASK, path, *GENERATION, "--strategy=sequential", *options]
    assert message in only_error(run(*line, status=1))
