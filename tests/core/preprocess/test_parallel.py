"""Work on chunks of lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.parallel import map_chunks, map_file

ROOT = Path(__file__).parents[3]  # tests.support would import torch in every worker


def upper(lines):
    return [line.upper() for line in lines]


def die(lines):
    os.kill(os.getpid(), signal.SIGKILL)


def process(lines):
    time.sleep(0.05)
    return os.getpid()


def complain(lines):
    raise UserError("file, line 3: wrong")


@pytest.mark.parametrize("workers", [1, 3])
def test_order_and_completeness(workers):
    lines = [f"line {i}" for i in range(1001)]
    chunks = list(map_chunks(upper, iter(lines), workers, size=10))
    assert [line for chunk in chunks for line in chunk] == upper(lines)
    assert list(map_chunks(upper, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_document_lines_stay(write, tmp_path, workers):
    map_file(upper, write("in", "<d>\na\n<d>\nb\n\nc\n" * 4000), tmp_path / "out", workers)
    assert list(read_lines(tmp_path / "out")) == ["<d>", "A", "<d>", "B", "", "C"] * 4000


def test_few_lines_are_worked_on_here():
    assert list(map_chunks(process, ["a"], 4)) == [os.getpid()]
    assert os.getpid() not in map_chunks(process, ["a", "b"], 4, size=1)


@pytest.mark.parametrize("lines", [1, 20_000])
def test_error_in_a_worker(write, tmp_path, lines):
    with pytest.raises(UserError, match="file, line 3: wrong"):
        map_file(complain, write("in", "a\n" * lines), tmp_path / "out", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_worker_killed(write, tmp_path):
    with pytest.raises(UserError, match="--workers"):
        map_file(die, write("in", "a\n" * 20_000), tmp_path / "out", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def is_running(pid):
    """Whether the process lives; one that has ended may wait as a zombie for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_workers_end_when_their_starter_is_killed():
    """kill -9 leaves neither workers nor their server behind."""
    program = (
        "import os\nfrom gtransformer.preprocess.parallel import map_chunks\n"
        "from tests.core.preprocess.test_parallel import process\n"
        "print(os.getpid(), flush=True)\n"
        "for pid in map_chunks(process, map(str, range(1000)), 2, size=1):\n    print(pid, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as started:
        starter, workers = int(started.stdout.readline()), set()
        while len(workers) < 2:  # the first may have done several chunks before the second has started
            workers.add(int(started.stdout.readline()))
        server = int(Path(f"/proc/{min(workers)}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(starter, signal.SIGKILL)
    assert server not in (starter, os.getpid())
    until = time.monotonic() + 20
    while any(is_running(pid) for pid in [*workers, server]):
        assert time.monotonic() < until
        time.sleep(0.05)
