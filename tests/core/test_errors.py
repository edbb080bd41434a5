"""Errors that users can cause: one sentence, exit status 1, no traceback."""

import os
import signal

import pytest
from fairseq.checkpoint_utils import load_model_ensemble

from gtransformer.errors import UserError, cli_main, explain
from gtransformer.files import atomic_write


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


@pytest.mark.parametrize(
    ("number", "before", "status"),
    [
        (signal.SIGTERM, signal.SIG_DFL, 130),
        (signal.SIGHUP, signal.SIG_IGN, 0),
    ],  # as nohup leaves it
)
def test_signals_interrupt_a_command_unless_they_are_ignored(number, before, status, tmp_path):
    """An interrupted command leaves no file."""

    @cli_main
    def main(argv):
        with atomic_write(tmp_path / "written") as stream:
            print("half", file=stream, flush=True)
            os.kill(os.getpid(), number)

    earlier = signal.signal(number, before)
    try:
        assert main([]) == status and signal.getsignal(number) == before
    finally:
        signal.signal(number, earlier)
    assert [path.name for path in tmp_path.iterdir()] == ["written"][: status == 0]


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
