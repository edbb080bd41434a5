"""An interrupted translation is finished by the same command, and the result is that of an uninterrupted one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from gtransformer.cli.translate import main
from gtransformer.errors import UserError
from gtransformer.translation.lines import TextPosition
from gtransformer.translation.resumable import ResumableOutput
from tests.hard_text import hard_lines
from tests.processes import start
from tests.support import ROOT

LINES = 70


def stop_after(monkeypatch, windows: int) -> None:
    """Let the next run end, as if the machine failed, when so many windows are written."""
    real, written = ResumableOutput.add, []

    def add(self, *arguments):
        if len(written) == windows:
            self._stream.write(b"half a window")
            self._stream.flush()
            raise OSError("the machine failed")
        written.append(real(self, *arguments))

    monkeypatch.setattr(ResumableOutput, "add", add)


@pytest.fixture
def source(tmp_path):
    """A file of several windows, some of which end within a document."""
    return write_source(tmp_path / "text.txt")


@pytest.fixture(scope="module")
def uninterrupted(saved_model, tmp_path_factory):
    """What comes of it without interruption."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert main(command(saved_model, write_source(folder / "text.txt"), folder / "out.jsonl")) == 0
    return (folder / "out.jsonl").read_bytes()


def write_source(path):
    path.write_bytes(("\n".join(hard_lines(LINES, longest=25, long_sentence=50)) + "\n").encode())
    return path


def command(saved_model, source, output, *more) -> list[str]:
    line = ["--model", saved_model, source, "-o", output, "--cpu", "--quiet", "--format", "json", "--max-tokens", 50]
    return [str(word) for word in (*line, *more)]


@pytest.mark.slow
@pytest.mark.parametrize("windows", [0, 1, 5])
def test_resumed_equals_uninterrupted(saved_model, source, uninterrupted, tmp_path, monkeypatch, windows):
    again = tmp_path / "again.jsonl"
    with monkeypatch.context() as patch:
        stop_after(patch, windows)
        with pytest.raises(OSError, match="the machine failed"):
            main(command(saved_model, source, again))
    assert not again.exists()
    state = tmp_path / "again.jsonl.part.json"
    assert state.exists() == (windows > 0)
    if windows:
        done = json.loads(state.read_text())["place"]["lines"]
        assert 0 < done < LINES
    assert main(command(saved_model, source, again)) == 0
    assert again.read_bytes() == uninterrupted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.jsonl", "text.txt"]


@pytest.mark.slow
def test_killed_and_started_again(saved_model, source, uninterrupted, tmp_path):
    """``kill -9`` in the middle of a real run."""
    again = tmp_path / "again.jsonl"
    line = [sys.executable, "-m", "gtransformer.cli.translate", *command(saved_model, source, again)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    state = tmp_path / "again.jsonl.part.json"

    def done() -> int:
        return json.loads(state.read_text())["place"]["lines"] if state.exists() else 0

    with start(line, env=environment, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 240
        while not done() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and not again.exists()
    assert 0 < done() < LINES
    assert main(command(saved_model, source, again)) == 0
    assert again.read_bytes() == uninterrupted and not state.exists()


def test_killed_before_the_first_window(tmp_path):
    output = ResumableOutput(tmp_path / "out", {})
    output.__enter__()
    output._stream.write(b"half a window")
    output._stream.close()
    with ResumableOutput(tmp_path / "out", {}) as again:
        again.add(["x"], TextPosition(lines=1))
        again.finish()
    assert (tmp_path / "out").read_text() == "x\n" and len(list(tmp_path.iterdir())) == 1


def test_a_file_with_the_name_of_an_unfinished_one_is_kept(saved_model, tmp_path, monkeypatch, capsys):
    """An input, one of several, or a file that has nothing to do with the translation."""
    monkeypatch.chdir(tmp_path)
    given = {name: tmp_path / name for name in ("text.part", "text", "text.part.json")}
    for path in given.values():
        path.write_text("the dog\n")
    line = ["--model", str(saved_model), "--cpu", "--quiet"]
    cases = {
        ("text.part", "-o", "text"): "text.part: input and output are the same file",
        ("text.part.json", "-o", "text"): "text.part.json: input and output are the same file",
        ("text.part", "text", "-o", "out/"): "text: its translation would be begun in out/text.part",
    }
    for arguments, message in cases.items():
        assert main([*line, *arguments]) == 1 and message in capsys.readouterr().err
    given["text.part.json"].unlink()
    for more in ([], ["--restart"]):
        assert main([*line, "text", "-o", "text", *more]) == 1
        assert main([*line, "-o", "text", *more, "--", "text.part"]) == 1
    (tmp_path / "other.part").write_text("precious\n")
    assert main([*line, "text", "-o", "other", "--restart"]) == 1
    assert "other.part: there already, but not of an interrupted run" in capsys.readouterr().err
    assert (tmp_path / "other.part").read_text() == "precious\n" and not (tmp_path / "other").exists()
    assert given["text.part"].read_text() == given["text"].read_text() == "the dog\n"


def test_blank_lines_that_are_gone(saved_model, source, tmp_path, monkeypatch, capsys):
    output = tmp_path / "out.jsonl"
    source.write_bytes(b"The old dog.\n\n\n\n")
    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "finish", lambda *_: (_ for _ in ()).throw(OSError("the machine failed")))
        with pytest.raises(OSError, match="the machine failed"):
            main(command(saved_model, source, output))
    source.write_bytes(b"The old dog.\n")
    assert main(command(saved_model, source, output)) == 1
    assert "changed since" in capsys.readouterr().err


def test_another_model_or_input_is_refused(saved_model, source, tmp_path, monkeypatch, capsys):
    output = tmp_path / "out.jsonl"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(OSError, match="the machine failed"):
            main(command(saved_model, source, output))
    assert main(command(saved_model, source, output, "--beam", "1")) == 1
    assert "another model or other options" in capsys.readouterr().err
    lines = source.read_bytes().split(b"\n")
    source.write_bytes(b"\n".join([b"changed", *lines[1:]]))
    assert main(command(saved_model, source, output)) == 1
    assert "changed since" in capsys.readouterr().err
    source.write_bytes(lines[0] + b"\n")
    assert main(command(saved_model, source, output)) == 1
    assert "changed since" in capsys.readouterr().err
    assert main(command(saved_model, source, output, "--restart")) == 0
    assert len(output.read_bytes().split(b"\n")) == 2


@pytest.mark.slow
def test_what_lies_behind_may_change(saved_model, source, tmp_path, monkeypatch):
    lines = source.read_bytes().split(b"\n")
    output, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(OSError, match="the machine failed"):
            main(command(saved_model, source, output))
    source.write_bytes(b"\n".join([*lines[:-2], b"a better end", b""]))
    assert main(command(saved_model, source, output)) == 0
    assert main(command(saved_model, source, whole)) == 0
    assert output.read_bytes() == whole.read_bytes()


def test_damage_is_reported(tmp_path):
    output = tmp_path / "out.txt"
    with ResumableOutput(output, {"a": 1}) as first:
        first.note("x")
        first.add(["y"], TextPosition(1, 1, 1))
    (tmp_path / "out.txt.part").write_bytes(b"")
    with pytest.raises(UserError, match="shorter than it was"), ResumableOutput(output, {"a": 1}):
        pass
    (tmp_path / "out.txt.part.json").write_text("[")
    with pytest.raises(UserError, match="line 1: not valid JSON"), ResumableOutput(output, {"a": 1}):
        pass
    with ResumableOutput(output, {"a": 2}, restart=True) as again:
        again.add(["z"], TextPosition(1, 1, 1))
        again.finish()
    assert output.read_text() == "z\n" and [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_killed_while_finishing(tmp_path):
    """The file is there, its state not yet gone: the next run begins again instead of stumbling over it."""
    output = tmp_path / "out.txt"
    for _ in range(2):
        with ResumableOutput(output, {}) as run:
            assert run.position == TextPosition()
            run.add(["y"], TextPosition(1, 1, 1))
            state = run.state.read_bytes()
            run.finish()
        (tmp_path / "out.txt.part.json").write_bytes(state)
    assert output.read_text() == "y\n"


def test_unwritable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"), ResumableOutput(tmp_path / "file" / "out.txt", {}):
        pass


def test_two_runs_at_a_time(tmp_path):
    with ResumableOutput(tmp_path / "out.txt", {}), pytest.raises(UserError, match="another run is writing"):
        ResumableOutput(tmp_path / "out.txt", {}).__enter__()
    with ResumableOutput(tmp_path / "out.txt", {}):
        pass


def test_a_file_of_usual_size_is_kept_as_it_grows(saved_model, tmp_path, monkeypatch, capsys):
    """With the usual options, without a GPU; an interruption says what is kept, and the rest comes behind it."""
    text = tmp_path / "usual.txt"
    text.write_text("".join(f"Mary finds her book near the old house {n} .\n" for n in range(300)))
    line = ["--model", saved_model, text, "-o", tmp_path / "out", "--cpu", "--beam=1", "--max-tokens=4096"]
    line = [str(word) for word in line]
    real, written = ResumableOutput.add, []

    def add(self, lines, position):
        if written:
            raise KeyboardInterrupt
        written.append(len(lines))
        real(self, lines, position)

    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "add", add)
        assert main(line) == 130
    kept = sum(written)
    assert 0 < kept < 280
    assert f"{kept} lines are kept in {tmp_path / 'out.part'}" in capsys.readouterr().err
    assert main(line) == 0
    assert f"after line {kept}" in capsys.readouterr().err and len((tmp_path / "out").read_text().splitlines()) == 300
