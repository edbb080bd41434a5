"""Commands as a user runs them, each in a process group of its own that a test leaves nothing of.

``python -m MODULE`` spends six to ten seconds of processor time on importing PyTorch, fairseq and this package. Here
such a command (``python -P SCRIPT`` likewise) is forked from a server (multiprocessing's) that has imported them once;
its environment, folder, standard streams, signals, process group and exit status are those of a new process all the
same; so are those of the programs that it starts itself (``stages``). A command in a shell script begins with a new
interpreter as ever.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO

from tests import stages

ROOT = Path(__file__).resolve().parents[1]
PRELOADED = [
    "matplotlib.pyplot", "hydra.main", "torch._dynamo", "sacremoses", "sacrebleu", "fairseq", "gtransformer",
    "gtransformer.preprocess.pipeline",
]  # fmt: skip
STREAMS = ("stdin", "stdout", "stderr")


class Forked:
    """``[python, "-m", MODULE, ...]`` (or ``-P``) at work: what tests use of ``subprocess.Popen``, named as there."""

    def __init__(self, command, *, stdin=None, stdout=None, stderr=None, text=False, env=None, cwd=None, **options):
        self.args = [str(word) for word in command]
        assert stages.can_fork(self.args)
        wanted = {"stdin": subprocess.DEVNULL if stdin is None else stdin, "stdout": stdout, "stderr": stderr}
        self.stdin, self.stdout, self.stderr = None, None, None
        given = []  # the ends that the process gets
        for name in STREAMS:
            given.append(self._open(name, wanted[name], given, text))
        environment = dict(os.environ if env is None else env)
        arguments = (self.args[1:], str(cwd or os.getcwd()), environment, [_ToPass(fd) for fd in given])
        self.process = server().Process(target=_become, args=arguments, kwargs=options)
        try:
            self.process.start()
        finally:
            for fd in given:
                os.close(fd)
        self.pid = self.process.pid

    def _open(self, name: str, wanted: int | None, given: list[int], text: bool) -> int:
        """The process's end of a standard stream; the other end of a pipe becomes an attribute."""
        if wanted == subprocess.STDOUT:
            return os.dup(given[1])
        if wanted == subprocess.DEVNULL:
            return os.open(os.devnull, os.O_RDWR)
        if wanted is None:
            return os.dup(STREAMS.index(name))
        assert wanted == subprocess.PIPE
        read, write = os.pipe()
        ours, theirs, mode = (write, read, "w") if name == "stdin" else (read, write, "r")
        setattr(self, name, open(ours, mode if text else f"{mode}b"))
        return theirs

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for the signal that ended it; None while it runs."""
        return self.process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, input=None, timeout: float | None = None) -> tuple:
        """Write ``input``, read to the end what comes, and wait: ``(output, errors)``, as far as they are pipes."""
        found: dict[str, str | bytes] = {}

        def read(name: str, stream: IO) -> None:
            found[name] = stream.read()

        threads = [
            threading.Thread(target=read, args=(name, stream), daemon=True)
            for name in STREAMS[1:]
            if (stream := getattr(self, name)) and not stream.closed
        ]
        for thread in threads:
            thread.start()
        if self.stdin and not self.stdin.closed:
            try:
                self.stdin.write(input or "")
                self.stdin.close()
            except BrokenPipeError:
                pass
        for thread in threads:
            thread.join(timeout)
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout)
        self.wait(timeout)
        for name in found:
            getattr(self, name).close()
        return found.get("stdout"), found.get("stderr")

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_error) -> None:
        for stream in filter(None, (self.stdin, self.stdout, self.stderr)):
            stream.close()
        self.wait()


class _ToPass:
    """A file descriptor on its way to the process; pickled when it is started."""

    def __init__(self, fd: int):
        self.fd = fd

    def __reduce__(self):
        return _received, (DupFd(self.fd),)


def _received(duplicate) -> int:
    return duplicate.detach()


def server() -> multiprocessing.context.BaseContext:
    """The server; it is started by the first command, and finds this checkout first."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), before]))
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    return context


def collect_less() -> None:
    """Collect garbage less often, and not among what the imports left, which lives as long as the process.

    A seventh of the time of tests of models and searches was Python looking there.
    """
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


def _become(command: list[str], folder: str, environment: dict, fds: list[int], start_new_session=False) -> None:
    """In the forked process: do what Python does with this command line."""
    collect_less()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    if start_new_session:
        os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    multiprocessing.set_start_method(None, force=True)  # the usual one, not the server's, for what it starts itself
    os.chdir(folder)
    stages.fork_stages(_run)
    _run(command, environment)


def _run(command: list[str], environment: dict) -> None:
    """What ``python -m MODULE`` does, in a process that has imported much already."""
    sys.stdin = open(0, closefd=False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through="PYTHONUNBUFFERED" in environment)
    os.environ.clear()
    os.environ.update(environment)
    _, module, *_ = command
    sys.argv = list(command[1:])
    if module.startswith("fairseq_cli."):  # they set logging up before fairseq is imported, which does it otherwise
        logging.getLogger().handlers.clear()
    try:
        sys.path.insert(0, os.getcwd())
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Exception:  # multiprocessing would not ask the hook, which says errors of users in one line
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def start(command, **options) -> Forked | subprocess.Popen:
    """``subprocess.Popen`` with these options; what can be is forked where nothing else is asked for."""
    known = {"stdin", "stdout", "stderr", "text", "env", "cwd", "start_new_session"}
    forked = stages.can_fork(list(map(str, command))) and options.keys() <= known
    return (Forked if forked else subprocess.Popen)(command, **options)


def run_forked(command: list[str], *, check: bool = False, **options) -> subprocess.CompletedProcess:
    """``subprocess.run`` of what can be forked."""
    assert not check
    with Forked(command, **options) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def interrupt_when(ready: Callable[[], bool], command, **options) -> str:
    """End a command, by SIGTERM, as soon as something is ``ready``; returns its output.

    It must be at work until then, and end with status 130.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = start(command, start_new_session=True, **streams, **options)
    try:
        while not ready():
            assert process.poll() is None, process.communicate()[0][-3000:]
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    return output


def run_group(command, timeout: float = 560, **options) -> subprocess.CompletedProcess:
    """``subprocess.run`` with text output, errors in the same pipe unless told otherwise.

    On a timeout all that the command has started is ended as well, and the output so far is added to the error.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    process = start(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        output, errors = process.communicate(timeout=timeout)
    except BaseException as problem:
        problem.add_note(f"{command}\n{_end(process)}")
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _end(process: Forked | subprocess.Popen) -> str:
    """Ask the group to end, which lets a program end what it has put in groups of their own, then kill it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            output, errors = process.communicate(timeout=20)
            return f"{(output or '')[-5000:]}\n{(errors or '')[-5000:]}"
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    return "(its output could not be had)"
