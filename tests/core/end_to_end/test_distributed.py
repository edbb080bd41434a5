"""Two or four processes on the CPU learn what one process learns with as many times more batches an update."""

import pytest
import torch

from gtransformer.compat.patches import free_port
from tests.commands import SMALL, TRAINING, losses, run, start
from tests.support import relative_error

# 120 batches, which two processes share evenly: of an odd number they would halve one.
SHORT = ["--batch-size=25", "--max-update=6", "--lr=0.002", "--warmup-updates=3", "--no-epoch-checkpoints"]
BOTH = [
    "--distributed-world-size=2", "--distributed-no-spawn", "--distributed-backend=gloo", "--ddp-backend=legacy_ddp",
]  # fmt: skip
SIZES = [*SMALL[2:-9], *SMALL[-3:]]  # without the architecture and what G-Transformer alone has


def parameters(path):
    return torch.load(path)["model"]


def outputs_of(processes) -> list[str]:
    """What each of them printed; all end well."""
    try:
        outputs = [process.communicate(timeout=500)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process in processes:  # where one fails, the others say only that it is gone
        assert process.returncode == 0, "\n".join(output[-3000:] for output in outputs)
    return outputs


def train_in_processes(number: int, *line) -> list[str]:
    """What each printed, in the environment that torchrun gives to its processes and with fairseq's usual wrapper."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(number)}
    return outputs_of([start(*line, **place, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(number)])


def train_in_two_processes(*line) -> list[str]:
    """The same of two that are told by options where they meet."""
    meeting_point = f"--distributed-init-method=tcp://127.0.0.1:{free_port()}"
    return outputs_of([start(*line, *BOTH, meeting_point, f"--distributed-rank={rank}") for rank in range(2)])


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
    outputs = train_in_two_processes(*line, f"--save-dir={tmp_path / 'two'}")
    assert "training on 2 devices" in outputs[0]

    alone = run(*line, "--update-freq=2", f"--save-dir={tmp_path / 'one'}")
    found, expected = losses(outputs[0]), losses(alone)
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


def test_gradients_of_four_processes_are_those_of_one(copy_corpus, tmp_path):
    """To float precision, from the same weights; also where fairseq's own launcher starts two processes."""
    line = ["train", copy_corpus / "bin", *TRAINING, *SMALL, "--batch-size=25", "--no-epoch-checkpoints"]
    descent = [*line, "--optimizer=sgd", "--lr-scheduler=fixed", "--clip-norm=0", "--disable-validation"]
    run(*descent, "--lr=0", "--max-update=1", f"--save-dir={tmp_path / 'begin'}")
    first = tmp_path / "begin" / "checkpoint_last.pt"
    descent += ["--lr=1", f"--finetune-from-model={first}"]
    single = {}
    for accumulated, updates in ((4, 1), (2, 2)):
        folder = tmp_path / f"one{accumulated}"
        run(*descent, f"--max-update={updates}", f"--update-freq={accumulated}", f"--save-dir={folder}")
        single[accumulated] = change(parameters(first), parameters(folder / "checkpoint_last.pt"))
    train_in_processes(4, *descent, "--max-update=1", f"--save-dir={tmp_path / 'four'}")
    output = run(*descent, "--max-update=2", "--distributed-world-size=2", f"--save-dir={tmp_path / 'own'}")
    assert "training on 2 devices" in output
    for name, expected in (("four", single[4]), ("own", single[2])):
        found = change(parameters(first), parameters(tmp_path / name / "checkpoint_last.pt"))
        assert relative_error(found, expected) < 1e-5 and expected.abs().max() > 1e-3, name


def test_mistakes_and_divergence_are_told_once(copy_corpus, tmp_path):
    """By two processes; divergence as by one."""
    line = ["train", copy_corpus / "bin", *TRAINING, *SMALL, "--batch-size=25", f"--save-dir={tmp_path / 'out'}"]
    two, diverging = "--distributed-world-size=2", ["--lr=1e30", "--lr-scheduler=fixed", "--clip-norm=0"]
    for options, message in (
        (["--lr=0.002", "--neutral-gates", two], "error: --neutral-gates: "),
        (diverging, "error: gradients are not finite"),
        ([*diverging, two], "error: gradients are not finite"),
    ):
        output = run(*line, *options, "--max-update=9", status=1)
        assert "Traceback" not in output and output.count("error: ") == output.count(message) == 1, output[-3000:]
