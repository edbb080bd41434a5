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


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def parameters(path):
    return torch.load(path)["model"]


def test_two_processes_equal_one(copy_corpus, tmp_path):
    line = ["train", copy_corpus / "bin", *TRAINING, *SMALL, *SHORT]
    meeting_point = f"--distributed-init-method=tcp://127.0.0.1:{free_port()}"
    processes = [
        start(*line, *BOTH, meeting_point, f"--distributed-rank={rank}", f"--save-dir={tmp_path / 'two'}")
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=500)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output[-3000:]
    assert "training on 2 devices" in outputs[0]

    alone = run(*line, "--update-freq=2", f"--save-dir={tmp_path / 'one'}")
    found, expected = losses(outputs[0]), losses(alone)
    assert list(found) == list(expected) == list(range(1, 7))
    for update, loss in expected.items():
        assert found[update] == pytest.approx(loss, abs=2e-3)
    together, single = (parameters(tmp_path / name / "checkpoint_last.pt") for name in ("two", "one"))
    for name, value in single.items():
        assert torch.allclose(together[name], value, atol=1e-4), name
