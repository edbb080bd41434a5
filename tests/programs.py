"""A program that a test starts and waits for."""

from __future__ import annotations

import time
from pathlib import Path

# Adds an x to a file and its process id to another, then sleeps.
PROGRAM = """
import os, sys, time
open(sys.argv[1], "a").write("x")
open(sys.argv[1] + ".pid", "w").write(f"{os.getpid()} ")
time.sleep(float(sys.argv[2]))
"""


def wait_for(path: Path, alive) -> int:
    """The process id that a program writes."""
    end = time.monotonic() + 60
    while not path.is_file() or not path.read_text().endswith(" "):
        assert alive() and time.monotonic() < end
        time.sleep(0.05)
    return int(path.read_text())
