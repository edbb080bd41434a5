"""The table of bad input (tests/bad_input): one clear sentence, a failing status, and nothing half-written."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from tests import processes
from tests.bad_input import corpora, fairseqs, models, recipes, scoring, translating
from tests.bad_input.row import TEXT, Row, everything, filled, run_here, sentence
from tests.commands import environment, only_error

pytestmark = pytest.mark.slow
GROUPS = (translating, models, recipes, corpora, scoring, fairseqs)
TABLE = [(group.__name__.rpartition(".")[2], row) for group in GROUPS for row in group.ROWS]
IN_ORDER = [pytest.param(row, id=f"{group}: {row.name}") for group, row in TABLE]
# Some as a user runs them, each in a new process.
REAL = [row for number, (_, row) in enumerate(TABLE) if number % 100 == 7 and not row.line.startswith("fairseq-")]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    return tmp_path


def check(row: Row, place, status: int, said: str, before) -> None:
    assert status not in (0, None)
    assert filled(row.says, row.paths(place)) in sentence(said)
    assert everything(place) == before


@pytest.mark.parametrize("row", IN_ORDER)
def test_bad_input(row, place, capsys, monkeypatch):
    row.make(place)
    before, words = everything(place), row.words(place)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    if words[0].startswith("fairseq-"):
        command = [sys.executable, "-m", f"fairseq_cli.{words[0].removeprefix('fairseq-')}", *words[1:]]
        done = processes.run_group(command, env=environment())
        status, said = done.returncode, f"error: {only_error(done.stdout)}"
    else:
        status = run_here(words)
        said = capsys.readouterr().err
    check(row, place, status, said, before)


@pytest.mark.parametrize("row", REAL, ids=lambda row: row.name)
def test_the_same_in_a_process_of_its_own(row, place):
    row.make(place)
    before, (command, *words) = everything(place), row.words(place)
    done = subprocess.run(
        [sys.executable, "-m", f"gtransformer.cli.{command}", *words],
        env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    check(row, place, done.returncode, done.stderr, before)
