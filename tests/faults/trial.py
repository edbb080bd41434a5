"""A command at work in a folder of its own, and what can be done to it and to its files."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import processes
from tests.faults.tried import COMMANDS, make_given, results
from tests.support import ROOT

COMMAND_ERROR = re.compile(r"^(?:error|[\w./ -]+: error): (.+)$", re.MULTILINE)
ROOM = "4g"  # of a small disk, when it is no longer small
PATIENCE = 15.0  # seconds in which what a command has started must be gone behind it
GONE = (ProcessLookupError, FileNotFoundError, PermissionError)


@dataclass
class Ended:
    """How a command ended; ``late``: it did not end by itself in the time it was given."""

    status: int
    output: str
    seconds: float
    late: bool = False

    def fault(self) -> str | None:
        """What it must never do, however it ended."""
        if self.late:
            return "hangs"
        return "traceback" if "Traceback (most recent call last)" in self.output else None

    def error(self) -> str | None:
        """Its one sentence; None if it gave none."""
        found = COMMAND_ERROR.findall(self.output)
        return found[-1] if found else None


class Stopped(Exception):
    """The campaign itself was ended; nothing more is started."""


class Running:
    """A command at work; what it says is read all the while, so that it never waits for a reader."""

    def __init__(self, process: processes.Forked):
        self.process, self._lines = process, []
        self._reader = threading.Thread(target=lambda: self._lines.extend(process.stdout), daemon=True)
        self._reader.start()

    def said(self) -> str:
        """So far; what it has left at work may go on speaking."""
        self._reader.join(1)
        return "".join(self._lines)


class Trial:
    """A folder in which one of the commands works: what it reads in ``given``, what it writes in ``out``."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.closed = False
        self.out, self.counter = self.folder / "out", self.folder / "renames"
        self.release()
        self.given = make_given(name, self.folder)

    def close(self) -> None:
        """Start nothing any more, and leave nothing at work."""
        self.closed = True
        self.release()

    def begin(self) -> None:
        """Nothing is there."""
        self.release()
        shutil.rmtree(self.out, ignore_errors=True)

    def release(self) -> None:
        """End what is left at work, and give a small disk back."""
        self.strike(signal.SIGKILL)
        while os.path.ismount(self.out):
            subprocess.run(["umount", str(self.out)], check=False)

    def start(self, renames: int = 0) -> Running:
        """The command, in a group of its own; it waits in front of the rename of this number."""
        if self.closed:
            raise Stopped
        self.counter.write_bytes(b"")
        self.counter.with_suffix(".reached").unlink(missing_ok=True)
        line = [sys.executable, "-m", "tests.faults.inject", self.counter, renames, COMMANDS[self.name].module]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return Running(
            processes.start(
                [*map(str, line), *COMMANDS[self.name].line(self.given, self.out)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=self.folder,
                start_new_session=True,
            )
        )  # fmt: skip

    def finish(self, running: Running, limit: float) -> Ended:
        """Wait for it, at most ``limit`` seconds."""
        began = time.monotonic()
        try:
            status = running.process.wait(limit)
            return Ended(status, running.said(), time.monotonic() - began)
        except subprocess.TimeoutExpired:
            self.strike(signal.SIGKILL)
            return Ended(-9, running.said(), limit, late=True)

    def run(self, limit: float) -> Ended:
        """Undisturbed, to its end."""
        return self.finish(self.start(), limit)

    def wait(self, running: Running, seconds: float, reached: bool = False) -> bool:
        """Wait so long, or until the rename is ``reached``; False if the command is over by then."""
        end, process = time.monotonic() + seconds, running.process
        while time.monotonic() < end and process.poll() is None:
            if reached and self.counter.with_suffix(".reached").exists():
                break
            time.sleep(0.01)
        return process.poll() is None

    def at_work(self) -> list[int]:
        """All processes of the command, of whatever group: they stand in its folder."""
        return [pid for pid, place in places() if place == self.folder.resolve()]

    def strike(self, number: int) -> None:
        """Signal all processes at one moment, as far as there is one: none goes on while others are ended."""
        stopped: set[int] = set()
        while new := set(self.at_work()) - stopped:
            for pid in new:
                send(pid, signal.SIGSTOP)
            stopped |= new
        for pid in stopped:
            send(pid, number)
            send(pid, signal.SIGCONT)
        end = time.monotonic() + PATIENCE
        while number == signal.SIGKILL and self.at_work() and time.monotonic() < end:
            time.sleep(0.01)

    def is_quiet(self) -> bool:
        """Whether nothing is at work any more, or soon is not."""
        end = time.monotonic() + PATIENCE
        while self.at_work() and time.monotonic() < end:
            time.sleep(0.05)
        return not self.at_work()

    def keep(self) -> None:
        """Remember what lies in ``out``, for ``restore``."""
        shutil.rmtree(self.folder / "kept", ignore_errors=True)
        shutil.copytree(self.out, self.folder / "kept")

    def restore(self) -> None:
        """``out`` as it was then, times of the files included."""
        self.begin()
        shutil.copytree(self.folder / "kept", self.out)

    def small_disk(self, size: int) -> None:
        """``out`` becomes a file system of its own of so many bytes; it is root that may."""
        self.out.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.out)], check=True)

    def make_room(self) -> None:
        """It is not small any more."""
        subprocess.run(["mount", "-o", f"remount,size={ROOM}", str(self.out)], check=True)

    def results(self) -> dict[str, str]:
        """Digests of what has come out."""
        return results(self.out)

    def files(self) -> list[Path]:
        """All that lies in ``out``, but locks, which hold nothing."""
        return sorted(path for path in self.out.rglob("*") if path.is_file() and path.stat().st_size)

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.files())


def places() -> Iterator[tuple[int, Path]]:
    """(process, the folder it stands in) of all that are at work."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                place = Path(os.readlink(entry / "cwd"))
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except GONE:
                continue
            if state not in "ZX":
                yield int(entry.name), place


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def can_mount(folder: Path) -> bool:
    """Whether this user may make small file systems."""
    place = folder / "mount"
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True)
    if done.returncode == 0:
        subprocess.run(["umount", str(place)], check=True)
    return done.returncode == 0


def damage(path: Path, draw: random.Random, remove: bool) -> str:
    """Remove a file or cut it short; in words."""
    if remove:
        path.unlink()
        return "removed"
    length = draw.randrange(path.stat().st_size)
    os.truncate(path, length)
    return f"cut to {length} bytes"
