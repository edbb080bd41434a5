"""Work on chunks of lines."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.parallel import map_chunks, map_file


def upper(lines):
    return [line.upper() for line in lines]


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


@pytest.mark.parametrize("lines", [1, 20_000])
def test_error_in_a_worker(write, tmp_path, lines):
    with pytest.raises(UserError, match="file, line 3"):
        map_file(complain, write("in", "a\n" * lines), tmp_path / "out", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
