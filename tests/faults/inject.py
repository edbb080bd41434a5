"""A command that waits between a file's write and its rename: ``python -m tests.faults.inject COUNTER N MODULE ...``.

Runs a module as ``python -m`` does. COUNTER is a file that grows by one byte with every rename of the command and of
all that it forks. In front of the Nth the process waits, for the campaign to strike, having made COUNTER.reached; 0: it
only counts. Sessions that are made on the way get a low share of the processor, as far as the system has such.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")


def count_renames(counter: Path, wanted: int) -> None:
    """Let ``os.rename`` and ``os.replace``, here and in what is forked, count and wait."""

    def counted(rename):
        def call(*args, **options):
            with open(counter, "ab", buffering=0) as stream:
                stream.write(b".")
                number = stream.tell()
            if number == wanted:
                counter.with_suffix(".reached").touch()
                while True:
                    time.sleep(0.02)
            return rename(*args, **options)

        return call

    os.rename, os.replace = counted(os.rename), counted(os.replace)


def take_low_share() -> None:
    """A campaign runs beside other work; every new session would begin with the share of a whole user."""
    setsid = os.setsid

    def low() -> None:
        try:
            AUTOGROUP.write_text("10")
        except OSError:
            pass  # a system without

    def call() -> None:
        setsid()
        low()

    os.setsid = call
    low()


def main() -> None:
    counter, wanted, module, *arguments = sys.argv[1:]
    take_low_share()
    count_renames(Path(counter), int(wanted))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
