"""What a driver says while programs run: a line about each, read from their logs."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gtransformer.tasks.training import spoken

EVERY = 20.0  # seconds between progress lines where the output is not a terminal
# What makes fairseq-generate say how far it is as ``batch_status`` reads it, and nothing else.
BATCHES = ("generate.log-format=simple", "generate.log-interval=1", "generate.quiet=true")


def say(line: str) -> None:
    """A line about what an experiment does."""
    print(f"| {line}", flush=True)


class Progress:
    """One line about what is running: redrawn on a terminal, printed every so often elsewhere."""

    def __init__(self, label: str):
        self.label, self.began, self.shown, self.width = label, time.monotonic(), time.monotonic(), 0
        self.terminal = sys.stderr.isatty()

    def show(self, parts: Sequence[str]) -> None:
        """Show the state if it is time to."""
        if time.monotonic() - self.shown < (1.0 if self.terminal else EVERY):
            return
        self.shown = time.monotonic()
        line = f"  {self.label}: {'; '.join(parts)} [{spoken(self.shown - self.began)}]"
        if self.terminal:
            line = line[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + line.ljust(self.width))
            self.width = len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self.terminal and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            self.width = 0


def tail(path: Path, size: int = 4096) -> str:
    """The last bytes of a file as text, empty if there is none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - size))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def training_status(log: Path, updates: int | None) -> str | None:
    """``128/550 updates, perplexity 1.92, validation 1.81``, from fairseq's JSON log; the end may be unknown."""
    text = tail(log)
    done = re.findall(r'num_updates": "(\d+)"', text)
    if not done:
        return None
    parts = [f"{done[-1]}/{updates} updates" if updates else f"{done[-1]} updates"]
    for kind, name in (("ppl", "perplexity"), ("valid_ppl", "validation")):
        found = re.findall(rf'"{kind}": "([\d.]+)"', text)
        parts += [f"{name} {found[-1]}"] if found else []
    return ", ".join(parts)


def batch_status(log: Path) -> str | None:
    """``3/8 batches``, from the progress line of generation or of the contrastive command."""
    found = re.findall(r"(\d+) ?/ ?(\d+)(?: \[|\s)", tail(log))
    return f"{found[-1][0]}/{found[-1][1]} batches" if found else None


def last_line(log: Path) -> str | None:
    """The last line of a log, in short."""
    lines = re.split(r"[\r\n]+", tail(log).strip())
    return lines[-1].removeprefix("| ")[:70] or None
