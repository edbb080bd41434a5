"""What a driver says while programs run."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence

from tqdm import tqdm

from gtransformer.tasks.training import spoken

EVERY = 20.0  # seconds between progress lines where the output is not a terminal


def print_status(line: str) -> None:
    """A line about what an experiment does."""
    print(f"| {line}", flush=True)


class Progress:
    """One line about what is running: redrawn on a terminal, printed every so often elsewhere."""

    def __init__(self, label: str):
        self.label, self.began, self.shown = label, time.monotonic(), time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.line = tqdm(bar_format="  {desc}", leave=False, disable=not self.terminal)

    def show(self, parts: Sequence[str]) -> None:
        """Show the state if it is time to."""
        if time.monotonic() - self.shown < (1.0 if self.terminal else EVERY):
            return
        self.shown = time.monotonic()
        said = f"{self.label}: {'; '.join(parts)} [{spoken(self.shown - self.began)}]"
        if self.terminal:
            self.line.set_description_str(said[: shutil.get_terminal_size().columns - 3])
        else:
            print(f"  {said}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Make room for another line."""
        self.line.clear()
