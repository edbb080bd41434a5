"""Two processes on the CPU learn what one process learns with twice as many batches an update."""

import pytest
import torch

from tests.commands import SMALL, TRAINING, losses, run
from tests.support import relative_error

# 120 batches, which two processes share evenly.
SHORT = ["--batch-size=25", "--max-update=6", "--lr=0.002", "--warmup-updates=3", "--no-epoch-checkpoints"]
TWO = ["--distributed-world-size=2", "--cpu"]
SIZES = [*SMALL[2:-9], *SMALL[-3:]]  # without the architecture and what G-Transformer alone has


def parameters(path):
    return torch.load(path)["model"]


def test_the_second_of_two_steps(copy_corpus, tmp_path):
    """Losses of six updates, and the parameters behind them, are those of one process.

    What is frozen has no gradient to be added up, and stays as it is to the bit.
    """
    data = ["train", copy_corpus / "bin", *TRAINING, *SIZES, *SHORT]
    single = ["--arch=doc_transformer_mini", "--instances=disjoint", "--context-sentences=0", "--max-update=1"]
    run(*data, *single, f"--save-dir={tmp_path / 'first'}")
    first = tmp_path / "first" / "checkpoint_last.pt"
    line = [*data, "--arch=document_transformer_mini", "--instances=current", "--context-sentences=2"]
    line += ["--freeze-sentence-parameters", "--load-partial", f"--finetune-from-model={first}"]
    output = run(*line, *TWO, f"--save-dir={tmp_path / 'two'}")
    assert "training on 2 devices" in output

    alone = run(*line, "--update-freq=2", f"--save-dir={tmp_path / 'one'}")
    found, expected = losses(output), losses(alone)
    assert list(found) == list(expected) == list(range(1, 7))
    for update, loss in expected.items():
        assert found[update] == pytest.approx(loss, abs=2e-3)
    together, single, before = (parameters(path) for path in (
        tmp_path / "two" / "checkpoint_last.pt", tmp_path / "one" / "checkpoint_last.pt", first,
    ))  # fmt: skip
    for name, value in single.items():
        assert torch.allclose(together[name], value, atol=1e-4), name
    assert len(before) < len(together) and all(torch.equal(value, together[name]) for name, value in before.items())


def change(before, after) -> torch.Tensor:
    """What a training with lr 1 and plain gradient descent has taken off the parameters: the gradients' sum."""
    return torch.cat([(value - after[name]).flatten() for name, value in before.items() if value.is_floating_point()])


def test_gradients_of_two_processes_are_those_of_one(copy_corpus, tmp_path):
    """To float precision, from the same weights."""
    line = ["train", copy_corpus / "bin", *TRAINING, *SMALL, "--batch-size=25", "--no-epoch-checkpoints"]
    descent = [*line, "--optimizer=sgd", "--lr-scheduler=fixed", "--clip-norm=0", "--disable-validation"]
    run(*descent, "--lr=0", "--max-update=1", f"--save-dir={tmp_path / 'begin'}")
    first = tmp_path / "begin" / "checkpoint_last.pt"
    descent += ["--lr=1", f"--finetune-from-model={first}", "--max-update=2"]
    run(*descent, "--update-freq=2", f"--save-dir={tmp_path / 'one'}")
    run(*descent, *TWO, f"--save-dir={tmp_path / 'two'}")
    found, expected = (
        change(parameters(first), parameters(tmp_path / name / "checkpoint_last.pt")) for name in ("two", "one")
    )
    assert relative_error(found, expected) < 1e-5 and expected.abs().max() > 1e-3
