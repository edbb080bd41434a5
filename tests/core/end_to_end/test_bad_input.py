"""What cannot be of long context, in fairseq's commands as a user gives them: one sentence each, and no traceback."""

from __future__ import annotations

import re
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
    """A model of each system after one update, by its folder."""
    root = tmp_path_factory.mktemp("models")
    for name, arch, *options in (
        ("sentences", "doc_transformer_mini", *SENTENCES),
        ("lst", "lst_transformer_mini", *PARTS),
        ("window", "window_transformer_mini", "--window", "3", *PARTS),
        ("alone", "gtransformer_mini", "--encoder-ctxlayers=1", "--cross-ctxlayers=1", "--decoder-ctxlayers=0"),
    ):
        run("train", DATA, *TASK, "--arch", arch, *SMALL, *options, *ONE_UPDATE, f"--save-dir={root / name}")
    return root


def train(arch: str, *options: object, status: int = 1) -> str:
    return run("train", DATA, *TASK, "--arch", arch, *SMALL, *ONE_UPDATE, *options, status=status)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--instances=sliding", "--context-sentences=0"], "--context-sentences 0: give 1 or more; single sentences"),
        (["--window=0"], "--window 0: give at least 1"),
        (["--length-ratio=0"], "--length-ratio 0: give a number greater than 0"),
        (["--length-ratio=nan"], "--length-ratio nan: give a number greater than 0"),
        (["--length-ratio=inf"], "--length-ratio inf: give a number greater than 0"),
        (["--arch=window_transformer_tny"], "--arch: there is no architecture 'window_transformer_tny'; "),
        (["--eval-bleu", "--eval-bleu-args={beam: 4}"], "--eval-bleu-args {beam: 4}: no JSON object (Expecting "),
    ],
)
def test_options_of_training(tmp_path, options, message):
    assert message in only_error(train("window_transformer_mini", *options, f"--save-dir={tmp_path}"))


@pytest.mark.parametrize("option", ["--train-alignment", "--decode-alignment"])
def test_an_unknown_alignment(tmp_path, option):
    output = train("window_transformer_mini", f"{option}=diagonal", f"--save-dir={tmp_path}", status=2)
    assert "Traceback" not in output
    assert re.search(rf"error: argument {option}: invalid choice: '?diagonal'? \(choose from ", output)


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
    ("one", "other", "options", "message"),
    [
        ("window", "lst", [], "does not fit this model: "),
        ("lst", "window", [], "does not fit this model: "),
        ("lst", "window", ["--load-partial"], "the pretrained checkpoint is of another size: "),
        ("window", "doc", ["--load-partial"], "the pretrained checkpoint is of another structure: "),
        ("alone", "lst", ["--load-partial"], "the pretrained checkpoint is of another structure: "),
    ],
)
def test_fine_tuning_from_another_system(models, tmp_path, one, other, options, message):
    """--load-partial is for what a plain Transformer has."""
    given = f"--finetune-from-model={models / one / 'checkpoint_last.pt'}"
    output = train(f"{other}_transformer_mini", given, *options, *PARTS, f"--save-dir={tmp_path}")
    assert message in only_error(output)


def generate(models, name: str, *options: str) -> str:
    path = f"--path={models / name / 'checkpoint_last.pt'}"
    return run("generate", DATA, *TASK, path, *GENERATION, *options, status=1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sentences", ["--strategy=sequential", *SENTENCES], "leave --strategy out"),
        (
            "sentences",
            ["--strategy=sequential", "--instances=sliding", "--context-sentences=2"],
            "the model was trained on single sentences of the target, without context; leave --strategy out",
        ),
        ("sentences", ["--strategy=sequential", "--window-tokens=60"], "the model was trained on single sentences"),
        ("alone", ["--strategy=sequential"], "the decoder of this model sees the current sentence alone"),
        ("lst", ["--strategy=sliding", "--window-tokens=5"], "more than --window-tokens 5: give "),
        (
            "window",
            ["--model-overrides={'decode_alignment': 'diagonal'}"],
            "decode_alignment: Invalid value 'diagonal', expected one of [one-to-one, linear, sentence]; give another",
        ),
        (
            "window",
            ["--model-overrides={'length_ratio': None, 'decode_alignment': 'linear'}"],
            "--decode-alignment linear needs --length-ratio",
        ),
        ("window", ["--model-overrides={'window': 0}"], "--window 0: give at least 1"),
    ],
)
def test_options_of_generation(models, name, options, message):
    assert message in only_error(generate(models, name, *options))


def test_by_sentence_without_marks(models):
    """Text whose sentences are not marked is one sentence."""
    arguments = [*TASK, f"--path={models / 'window' / 'checkpoint_last.pt'}", *GENERATION]
    given = "--model-overrides={'decode_alignment': 'sentence'}"
    output = run("interactive", DATA, *arguments, given, "--buffer-size=4", input="The dog sleeps.\n")
    assert "does not begin with <s> and is taken as one sentence" in output and "\nH-0\t" in output


def test_a_training_that_has_all_its_updates(models):
    """As where it was interrupted behind its last checkpoint: it makes no update more."""
    last = models / "sentences" / "checkpoint_last.pt"
    before = last.read_bytes()
    output = train("doc_transformer_mini", *SENTENCES, f"--save-dir={models / 'sentences'}", status=0)
    assert f"{last} has been trained for 1 updates" in output and "Start iterating" not in output
    assert last.read_bytes() == before
