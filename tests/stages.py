"""What a forked command starts itself (a pipeline's stages, a stage's fairseq) forked in its turn.

The commands' drivers start ``python -m MODULE`` and ``python -P SCRIPT`` through ``subprocess``. In a command that
``processes`` has forked, that is a fork, too: the driver has imported all that the stage would import again, for six
to ten seconds.
"""

from __future__ import annotations

import atexit
import multiprocessing.process
import multiprocessing.util
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Collection
from multiprocessing import resource_tracker
from types import SimpleNamespace

from gtransformer.run import stage as stages_of_recipes


class Stage:
    """A stage at work: what the drivers use of ``subprocess.Popen``, under the same names.

    ``become``: does what Python does with the words behind its name, and returns.
    """

    def __init__(
        self,
        become: Callable[[list[str], dict], None],
        command: list[str],
        *,
        stdout: object,
        stderr: object,
        env: dict,
        start_new_session: bool = False,
        pass_fds: Collection[int] = (),
    ):
        self.stdout, self.returncode = None, None
        read, write = os.pipe() if stdout == subprocess.PIPE else (None, stdout.fileno())
        error = write if stderr == subprocess.STDOUT else stderr.fileno()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.pid = os.fork()
        if not self.pid:
            _leave(lambda: _begin(become, command[1:], (write, error), env, start_new_session, pass_fds))
        if read is not None:
            os.close(write)
            self.stdout = open(read, "rb")

    def poll(self) -> int | None:
        return self._collect(os.WNOHANG)

    def wait(self) -> int:
        return self._collect(0)

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def _collect(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def can_fork(command: list[str]) -> bool:
    """Is it ``[python, "-m", MODULE, ...]``?"""
    return command[0] == sys.executable and command[1] == "-m"


def fork_stages(become: Callable[[list[str], dict], None]) -> None:
    """From now on this process's drivers fork the programs that they start, which then also do so."""

    def start(command, **options) -> Stage | subprocess.Popen:
        return Stage(become, command, **options) if can_fork(command) else subprocess.Popen(command, **options)

    forking = SimpleNamespace(Popen=start, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)
    stages_of_recipes.subprocess = forking


def _begin(become, command, streams, environment, new_session, kept) -> None:
    """In the forked process: nothing is left of the driver but what a new program would have of it."""
    atexit._clear()
    multiprocessing.process._children.clear()  # the driver's
    # Else a data loader's workers wait five seconds until they notice that nobody is there any more.
    atexit.register(multiprocessing.util._exit_function)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if new_session:
        os.setsid()
    for number, fd in zip((1, 2), [os.dup(fd) for fd in streams], strict=True):
        os.dup2(fd, number)
    last = 2
    for fd in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(last + 1, fd)
        last = fd
    tracker = resource_tracker._resource_tracker
    tracker._fd = tracker._pid = None  # the driver's was behind one of these numbers
    become(command, environment)


def _leave(work: Callable[[], None]) -> None:
    """Work, and end the process with the status that a program would have."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
