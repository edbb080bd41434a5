"""Errors that users can cause: one sentence, exit status 1, no traceback."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.checkpoint_utils import load_model_ensemble

from gtransformer.errors import UserError, cli_main, explain, install_excepthook
from gtransformer.tasks.trained import load_trained
from tests.processes import start


def test_a_checkpoint_that_another_criterion_has_trained():
    """fairseq's assertion, as its trainer has it."""
    said = "Criterion does not match; please reset the optimizer (--reset-optimizer). OneCriterion vs OtherCriterion"

    message = explain(AssertionError(said))
    assert "--criterion (OneCriterion, not OtherCriterion)" in message and "--reset-optimizer" in message
    assert explain(AssertionError("something else")) is None


@pytest.mark.parametrize("groups", [[1, 2], [2, 1, 1], [4]])
def test_an_optimizer_of_other_parameters(groups):
    """As if global attention was new, and is pretrained now, with two learning rates; the error is PyTorch's."""
    new, old = ([{"params": [torch.zeros(1) for _ in range(size)]} for size in sizes] for sizes in ([2, 1], groups))
    with pytest.raises(ValueError) as error:
        torch.optim.SGD(new, lr=1.0).load_state_dict(torch.optim.SGD(old, lr=1.0).state_dict())
    assert "--doc-double-lr" in explain(error.value)
    assert explain(ValueError("something else")) is None


def test_exit_status_of_commands(capsys):
    assert cli_main(lambda argv: None)([]) == 0
    assert cli_main(lambda argv: 3)([]) == 3
    assert cli_main(lambda argv: len(argv))(["a", "b"]) == 2

    def interrupted(argv):
        raise KeyboardInterrupt

    def mistaken(argv):
        """Documented."""
        raise UserError("in.txt, line 3: empty; fill it")

    assert cli_main(interrupted)([]) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert cli_main(mistaken)([]) == 1 and cli_main(mistaken).__doc__ == "Documented."
    assert capsys.readouterr().err == "error: in.txt, line 3: empty; fill it\n"
    with pytest.raises(ZeroDivisionError):
        cli_main(lambda argv: 1 / 0)([])
    assert explain(ZeroDivisionError("a bug")) is None


COMMAND = """
import signal, sys

signal.signal(signal.SIGHUP, signal.{before})
from gtransformer.errors import cli_main
from gtransformer.files import atomic_write

@cli_main
def main(argv=None):
    with atomic_write("written") as stream:
        print("half", file=stream, flush=True)
        print("ready", flush=True)
        sys.stdin.readline()
    print("done")

sys.exit(main())
"""


@pytest.mark.parametrize(
    ("before", "number", "status", "end"),
    [
        ("SIG_DFL", signal.SIGTERM, 130, "interrupted\n"),
        ("SIG_DFL", signal.SIGHUP, 130, "interrupted\n"),
        ("SIG_IGN", signal.SIGHUP, 0, "done\n"),  # as nohup leaves it
    ],
)
def test_signals_interrupt_a_command_unless_they_are_ignored(before, number, status, end, tmp_path):
    (tmp_path / "a_command.py").write_text(COMMAND.format(before=before))
    command = [sys.executable, "-m", "a_command"]
    pipe = subprocess.PIPE
    process = start(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)
    try:
        while process.stdout.readline() not in ("ready\n", ""):
            pass
        process.send_signal(number)
        time.sleep(0.2)
        output, _ = process.communicate("go on\n" if status == 0 else None, timeout=60)
    finally:
        process.kill()
    assert process.returncode == status and output.endswith(end)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_command.py", "written"][: 1 if status else 2]


def test_handlers_of_a_program_that_calls_a_command_are_its_own_again():
    before = signal.getsignal(signal.SIGTERM)
    within = []
    assert cli_main(lambda argv: within.append(signal.getsignal(signal.SIGTERM)))([]) == 0
    assert within[0] is not before and signal.getsignal(signal.SIGTERM) is before


def test_files_that_cannot_be_used(tmp_path, capsys):
    (tmp_path / "file").touch()
    work = {
        f"{tmp_path}/file/x: cannot be used (Not a directory)": lambda _: (tmp_path / "file" / "x").mkdir(),
        f"{tmp_path}: cannot be used (Is a directory)": lambda _: tmp_path.write_text(""),
        "output: cannot be written (No space left on device); free some space": lambda _: _write_to_full(),
        "to: cannot be written (No space left on device); free some space": lambda _: _copy_to_full(),
    }
    for message, main in work.items():
        assert cli_main(main)([]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"error: {message}") and error.count("\n") == 1
        with pytest.raises(OSError) as caught:
            main([])
        assert explain(caught.value).startswith(message)
    missing = FileNotFoundError(errno.ENOENT, "No such file", "x")  # may be a fault of the program
    assert explain(missing) is None


def _write_to_full():
    """As the system says it: without a name."""
    with open("/dev/full", "w") as stream:
        stream.write("text")
        stream.flush()


def _copy_to_full():
    """As shutil says it: the source first."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "from", None, "to")


def test_user_errors_are_found_behind_what_wraps_them():
    wrapped, handling, one, two = RuntimeError("wrapped"), KeyError("while handling"), ValueError(), ValueError()
    wrapped.__cause__, handling.__context__ = UserError("the cause"), UserError("the context")
    assert (explain(wrapped), explain(handling)) == ("the cause", "the context")
    one.__cause__, two.__cause__ = two, one  # a chain that bites its tail ends
    assert explain(one) is None


class Code:
    """What runs when it is read."""

    def __reduce__(self):
        return os.mkdir, ("was_run",)


def truncated(share: float):
    def write(path) -> None:
        torch.save({"args": None, "model": {"weight": torch.randn(50, 50)}}, path)
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])

    return write


@pytest.mark.parametrize(
    ("write", "said"),
    [
        *((truncated(share), "cannot be read, it is truncated or damaged") for share in (0, 0.01, 0.5, 0.99)),
        (lambda path: torch.save({"model": Code()}, path), "is unsafe and was not loaded"),
        (lambda path: path.write_bytes(pickle.dumps({"model": Code()})), "is unsafe and was not loaded"),
        *(
            (lambda path, value=value: torch.save(value, path), "is not fairseq's")
            for value in ({"x": 1}, torch.ones(3), "text", None)
        ),
    ],
)
def test_checkpoints_that_cannot_be_read(tmp_path, monkeypatch, write, said):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "c.pt")
    with pytest.raises(UserError) as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "c.pt"))
    message = explain(caught.value)
    assert message.startswith(f"checkpoint {tmp_path}/c.pt {said}") and "\n" not in message
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"], "nothing was run"


def test_a_checkpoint_for_which_there_is_no_room(tmp_path, monkeypatch, caplog):
    """The system names no file; fairseq tries three times, and logs no traceback."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    path = str(tmp_path / "checkpoint_last.pt")
    os.symlink("/dev/full", f"{path}.tmp")
    with pytest.raises(Exception) as caught:  # noqa: B017, PT011
        checkpoint_utils.torch_persistent_save({"model": torch.ones(100_000)}, path)
    assert (
        explain(caught.value)
        == f"{path}: cannot be written (No space left on device); free some space and run this again"
    )
    assert "Traceback" not in caplog.text


def test_checkpoint_of_another_model():
    layers = [torch.nn.Linear(3, 4), torch.nn.Linear(5, 2)]
    with pytest.raises(RuntimeError) as caught:
        torch.nn.Sequential(*layers).load_state_dict({"0.weight": torch.zeros(4, 7), "x": torch.zeros(1)})
    message = explain(caught.value)
    for part in ("lacks 3 of", "(0.bias, ...)", "has 1 that", "(x, ...)", "1 have", "(0.weight: [4, 7], not [4, 3])"):
        assert part in message and "\n" not in message


@pytest.mark.parametrize("part", ["model", "task"])
def test_checkpoint_of_another_plugin(saved_model, tmp_path, part):
    """fairseq's own message is the whole configuration."""
    path = tmp_path / "checkpoint.pt"
    state = torch.load(saved_model / "model.pt")
    state["cfg"][part]["_name"] = "levitating"
    torch.save(state, path)
    with pytest.raises(UserError, match=f"checkpoint {path}: its .* 'levitating' is unknown") as caught:
        load_trained(path, data=str(saved_model))
    assert "\n" not in str(caught.value)


def test_missing_checkpoint():
    with pytest.raises(OSError) as caught:
        load_model_ensemble(["nowhere/checkpoint_best.pt"])
    assert explain(caught.value).startswith("nowhere/checkpoint_best.pt: no such checkpoint; --path")


def test_excepthook(capsys, monkeypatch):
    calls = []
    monkeypatch.setattr(sys, "excepthook", lambda *args: calls.append(args))
    install_excepthook()
    install_excepthook()  # twice is once
    sys.excepthook(UserError, UserError("say it"), None)
    assert capsys.readouterr().err == "error: say it\n" and not calls
    bug = ZeroDivisionError("bug")
    sys.excepthook(ZeroDivisionError, bug, None)
    assert calls == [(ZeroDivisionError, bug, None)]
