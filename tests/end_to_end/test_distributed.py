"""Two processes on the CPU learn what one process learns with twice as many batches an update."""

import socket

import pytest
import torch

from tests.end_to_end.commands import SMALL, TRAINING, losses, run, start

# 120 batches, which two processes share evenly: of an odd number they would halve one.
SHORT = ["--batch-size=25", "--max-update=6", "--lr=0.002", "--warmup-updates=3", "--no-epoch-checkpoints"]
BOTH = [
    "--distributed-world-size=2", "--distributed-no-spawn", "--distributed-backend=gloo", "--ddp-backend=legacy_ddp",
]  # fmt: skip
SIZES = [*SMALL[2:-9], *SMALL[-3:]]  # without the architecture and what G-Transformer alone has


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def parameters(path):
    return torch.load(path)["model"]


def train_in_two_processes(*line) -> list[str]:
    """What each of them printed; both end well."""
    meeting_point = f"--distributed-init-method=tcp://127.0.0.1:{free_port()}"
    processes = [start(*line, *BOTH, meeting_point, f"--distributed-rank={rank}") for rank in range(2)]
    try:
        outputs = [process.communicate(timeout=500)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process in processes:  # where one fails, the other says only that it is gone
        assert process.returncode == 0, "\n".join(output[-3000:] for output in outputs)
    return outputs


def check_two_processes_equal_one(line, folder):
    """Losses of six updates, and the parameters behind them; returns those of the two processes."""
    outputs = train_in_two_processes(*line, f"--save-dir={folder / 'two'}")
    assert "training on 2 devices" in outputs[0]

    alone = run(*line, "--update-freq=2", f"--save-dir={folder / 'one'}")
    found, expected = losses(outputs[0]), losses(alone)
    assert list(found) == list(expected) == list(range(1, 7))
    for update, loss in expected.items():
        assert found[update] == pytest.approx(loss, abs=2e-3)
    together, single = (parameters(folder / name / "checkpoint_last.pt") for name in ("two", "one"))
    for name, value in single.items():
        assert torch.allclose(together[name], value, atol=1e-4), name
    return together


def test_two_processes_equal_one(copy_corpus, tmp_path):
    line = ["train", copy_corpus / "bin", *TRAINING, *SMALL, *SHORT]
    check_two_processes_equal_one(line, tmp_path)


def test_the_second_of_two_steps(copy_corpus, tmp_path):
    """What is frozen has no gradient to be added up, and stays as it is to the bit."""
    data = ["train", copy_corpus / "bin", *TRAINING, *SIZES, *SHORT]
    single = ["--arch=doc_transformer_tiny", "--instances=disjoint", "--context-sentences=0", "--max-update=1"]
    run(*data, *single, f"--save-dir={tmp_path / 'first'}")
    first = tmp_path / "first" / "checkpoint_last.pt"
    line = [*data, "--arch=document_transformer_tiny", "--instances=current", "--context-sentences=2"]
    line += ["--freeze-sentence-parameters", "--load-partial", f"--finetune-from-model={first}"]
    found = check_two_processes_equal_one(line, tmp_path)
    before = parameters(first)
    assert len(before) < len(found) and all(torch.equal(value, found[name]) for name, value in before.items())
