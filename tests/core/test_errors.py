"""Errors that users can cause: one sentence, exit status 1, no traceback."""

import signal
import subprocess
import sys
import time

import pytest
from fairseq.checkpoint_utils import load_model_ensemble

from gtransformer.errors import UserError, cli_main, explain, install_excepthook
from gtransformer.plugin.checkpoints import load_trained
from tests.processes import start


def test_exit_status_of_commands(capsys):
    assert cli_main(lambda argv: None)([]) == 0
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
    assert "[train]" in explain(ModuleNotFoundError("No module named 'fairseq'", name="fairseq"))


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


def test_user_errors_and_files_are_found_behind_what_wraps_them(tmp_path, capsys):
    wrapped, handling = RuntimeError("wrapped"), KeyError("while handling")
    wrapped.__cause__, handling.__context__ = UserError("the cause"), UserError("the context")
    assert (explain(wrapped), explain(handling)) == ("the cause", "the context")
    assert explain(ZeroDivisionError("a bug")) is None
    assert cli_main(lambda _: (tmp_path / "gone").read_text())([]) == 1
    assert f"{tmp_path}/gone" in capsys.readouterr().err
    with pytest.raises(OSError) as caught:
        load_model_ensemble(["nowhere/checkpoint_best.pt"])
    assert "nowhere/checkpoint_best.pt" in explain(caught.value)


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "c.pt").write_bytes(b"PK\3\4damaged")
    with pytest.raises(UserError, match=f"checkpoint {tmp_path}/c.pt cannot be loaded: ") as caught:
        load_trained(tmp_path / "c.pt")
    assert "\n" not in str(caught.value)


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
