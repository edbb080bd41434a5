"""Work on chunks of lines."""

from __future__ import annotations

import os
import signal

import pytest

from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.parallel import map_chunks, map_file


def upper(lines):
    return [line.upper() for line in lines]


def die(lines):
    os.kill(os.getpid(), signal.SIGKILL)


def complain(lines):
    raise UserError("file, line 3: wrong")


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_order_and_completeness(workers):
    lines = [f"line {i}" for i in range(1001)]
    chunks = list(map_chunks(upper, iter(lines), workers, size=10))
    assert [line for chunk in chunks for line in chunk] == upper(lines)
    assert list(map_chunks(upper, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_document_lines_stay(write, tmp_path, workers):
    map_file(upper, write("in", "<d>\na\n<d>\nb\n\nc\n"), tmp_path / "out", workers)
    assert list(read_lines(tmp_path / "out")) == ["<d>", "A", "<d>", "B", "", "C"]


def test_error_in_a_worker(write, tmp_path):
    with pytest.raises(UserError, match="file, line 3: wrong"):
        map_file(complain, write("in", "a\n"), tmp_path / "out", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_worker_killed(write, tmp_path):
    with pytest.raises(UserError, match="worker process was killed, probably for want of memory"):
        map_file(die, write("in", "a\n"), tmp_path / "out", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
