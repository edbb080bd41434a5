"""Errors that a user can cause, and how commands report them."""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gtransformer.installation import with_pip_names

# Packages that only an extra brings.
EXTRAS = {"fairseq": "train", "omegaconf": "train", "transformers": "hf", "tokenizers": "hf"}
# Of one of several processes, in its traceback.
BY_A_PROCESS = re.compile(r"^gtransformer\.errors\.UserError: (.+)", re.MULTILINE)


class UserError(Exception):
    """An error that the user can correct; the message states the problem, its location and the
    remedy.
    """


def cli_main(main: Callable[..., int | None]) -> Callable[..., int]:
    """Wrap a command's ``main(argv=None)``: errors that a user can correct become one line on
    stderr and exit status 1.

    An interrupt exits with 130 and a closed output pipe with 141, as shells expect, without a
    traceback. SIGTERM and SIGHUP are interrupts, so that no started program and no temporary file
    is left.
    """

    @functools.wraps(main)
    def wrapped(argv: list[str] | None = None) -> int:
        try:
            with signals_interrupt():
                return main(argv) or 0
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except BrokenPipeError:
            # Python flushes standard output at exit and would fail once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            print(f"error: {with_pip_names(message)}", file=sys.stderr)
            return 1

    return wrapped


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, in the main thread, where Python handles
    signals.

    Signals with other handlers are not changed: ``nohup`` ignores SIGHUP, and a calling program may
    have handlers.
    """

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    main = threading.current_thread() is threading.main_thread()
    names = [
        name
        for name in (signal.SIGTERM, signal.SIGHUP)
        if main and signal.getsignal(name) == signal.SIG_DFL
    ]
    for name in names:
        signal.signal(name, interrupt)
    try:
        yield
    finally:
        for name in names:
            signal.signal(name, signal.SIG_DFL)


def explain(error: BaseException | None) -> str | None:
    """Return the message of an error in a chain that a user can correct; None if there is none.

    It is a UserError, a file that cannot be used, or a package of an extra that is missing.

    fairseq wraps errors of the model, and torch those of a process.
    """
    while error is not None:
        if isinstance(error, UserError):
            return str(error)
        if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
            return f"this needs {error.name}: pip install -e '.[{EXTRAS[error.name]}]'"
        if type(error).__name__ == "ProcessRaisedException" and (
            found := BY_A_PROCESS.findall(str(error))
        ):
            return found[-1]
        # Without the name of a file it is no mistake of the user's; but fairseq says so of a model.
        if isinstance(error, OSError) and (
            error.filename is not None or str(error).startswith("Model file not found")
        ):
            return str(error)
        error = error.__cause__ or error.__context__
    return None


def install_excepthook() -> None:
    """Let fairseq's commands report user errors in one line, with exit status 1 and no
    traceback.
    """
    previous = sys.excepthook

    def hook(kind, error, trace) -> None:
        message = explain(error)
        if message is None:
            previous(kind, error, trace)
        else:
            print(f"error: {with_pip_names(message)}", file=sys.stderr)

    sys.excepthook = hook
