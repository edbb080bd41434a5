"""Progress lines while programs run."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence

from tqdm import tqdm

EVERY = 20.0  # seconds between progress lines if the output is not a terminal


def spoken(seconds: float) -> str:
    """Format seconds: ``75.2`` as ``1 min 15 s``, ``4000`` as ``1 h 6 min``."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def print_status(line: str) -> None:
    """Print a line about the state of an experiment."""
    print(f"| {line}", flush=True)


class Progress:
    """A line about running programs: redrawn on a terminal, else printed from time to time."""

    def __init__(self, label: str):
        self.label, self.began, self.shown = label, time.monotonic(), time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.line = tqdm(bar_format="  {desc}", leave=False, disable=not self.terminal)

    def show(self, parts: Sequence[str]) -> None:
        """Show the state, if due."""
        if time.monotonic() - self.shown < (1.0 if self.terminal else EVERY):
            return
        self.shown = time.monotonic()
        text = f"{self.label}: {'; '.join(parts)} [{spoken(self.shown - self.began)}]"
        if self.terminal:
            self.line.set_description_str(text[: shutil.get_terminal_size().columns - 3])
        else:
            print(f"  {text}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line, so that another can be printed."""
        self.line.clear()
